"""kernelized_attention on JAX arrays: the rule "linear" on mapped keys."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

import linattn_core
from linattn_core.checks import check_kernelized_attention, check_mapped
from linattn_jax._attend import attend
from linattn_jax._describe import describe
from linattn_jax._documentation import documented_as
from linattn_jax._precision import einsum
from linattn_jax._tokens import Array, Tokens, finish, keep, prepare, wide_dtype
from linattn_jax.feature_maps import elu_plus_one, relu

KernelState = tuple[Array, Array] | tuple[Array]
Form = Callable[[Tokens, Array], tuple[Array, Array]]


@documented_as(linattn_core.kernelized_attention)
def kernelized_attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    feature_map: str | Callable[[Array], Array] = "elu_plus_one",
    causal: bool = False,
    use_normalizer: bool = True,
    epsilon: float = 1e-6,
    mask: Array | None = None,
    segment_ids: Array | None = None,
    initial_state: KernelState | None = None,
    execution_mode: str = "auto",
    chunk_size: int = 64,
) -> tuple[Array, KernelState | None]:
    check_kernelized_attention(
        describe,
        query,
        key,
        value,
        feature_map=feature_map,
        causal=causal,
        use_normalizer=use_normalizer,
        epsilon=epsilon,
        mask=mask,
        segment_ids=segment_ids,
        initial_state=initial_state,
        execution_mode=execution_mode,
        chunk_size=chunk_size,
    )
    query, key, value, initial_state, mask, segment_ids = jax.tree.map(
        jnp.asarray, (query, key, value, initial_state, mask, segment_ids)
    )
    dtype = wide_dtype(query)
    output_dtype, width = value.dtype, value.shape[3]
    phi = _named(feature_map, epsilon) if isinstance(feature_map, str) else feature_map
    # Zeroed before the map too: the gradient of a map at NaN is NaN, also when unused.
    mapped_query = phi(keep(mask, query.astype(dtype)))
    mapped_key = phi(keep(mask, key.astype(dtype)))
    if not isinstance(feature_map, str):
        check_mapped(describe, query, key, mapped_query, mapped_key, initial_state)
        mapped_query, mapped_key = mapped_query.astype(dtype), mapped_key.astype(dtype)
    value = value.astype(dtype)
    if use_normalizer:
        value = jnp.concatenate([value, jnp.ones_like(value[..., :1])], axis=-1)
    tokens, state = prepare(
        mapped_query,
        mapped_key,
        value,
        log_decay=None,
        beta=None,
        initial_state=None if initial_state is None else _join_state(initial_state, dtype),
        mask=mask,
        segment_ids=segment_ids,
        scale=1.0,
    )

    def form(tokens: Tokens, state: Array) -> tuple[Array, Array]:
        return attend(tokens, state, execution_mode, chunk_size)

    final_state: KernelState | None = None
    if causal:
        read, state = form(tokens, state)
        final_state = (state[..., :width], state[..., width]) if use_normalizer else (state,)
    elif tokens.log_decay is None:
        read = _read_all(tokens)
    else:
        read = _read_segments(tokens, tokens.log_decay, state, form)
    output = read[..., :width]
    if use_normalizer:
        denominator = read[..., width:] + jnp.asarray(epsilon, dtype)
        if mask is not None:
            denominator = jnp.where(mask[..., None, None, None], denominator, 1)
        output = output / denominator
    return finish(output, mask, output_dtype), final_state


def _named(feature_map: str, epsilon: float) -> Callable[[Array], Array]:
    if feature_map == "elu_plus_one":
        return elu_plus_one
    if feature_map == "relu":
        return lambda x: relu(x, epsilon)
    return lambda x: x


def _join_state(state: KernelState, dtype: jnp.dtype) -> Array:
    """S, or S with Z as its last column: the state of the values with a column of ones."""
    parts = [x.astype(dtype) for x in state]
    if len(parts) == 1:
        return parts[0]
    return jnp.concatenate([parts[0], parts[1][..., None]], axis=-1)


def _read_all(tokens: Tokens) -> Array:
    """Every query reads the sum over the whole sequence (equations (13)-(14))."""
    state = einsum("bthk,bthv->bhkv", tokens.key, tokens.value)
    return einsum("bthrk,bhkv->bthrv", tokens.query, state)


def _read_segments(tokens: Tokens, starts: Array, state: Array, form: Form) -> Array:
    """Every query reads the sum over its segment: the tokens up to it, then those after it.

    The second sum is the causal form on the reversed sequence, where each token writes what
    the token after it wrote, and nothing at the end of a segment.
    """
    up_to, _ = form(tokens, state)
    ends = _next(starts)
    after_each = Tokens(
        query=tokens.query,
        key=jnp.where(ends == 0, _next(tokens.key), 0),
        value=jnp.where(ends == 0, _next(tokens.value), 0),
        log_decay=ends,
        beta=None,
    )
    after, _ = form(after_each.map(lambda x: jnp.flip(x, axis=1)), state)
    return up_to + jnp.flip(after, axis=1)


def _next(x: Array) -> Array:
    """`x` `[B, T, ...]` of the token after each one, 0 after the last."""
    return jnp.concatenate([x[:, 1:], jnp.zeros_like(x[:, :1])], axis=1)
