"""kernelized_attention in keras.ops: the rule "linear" on mapped keys."""

from collections.abc import Callable

from keras import ops

import linattn_core
from linattn_core.checks import check_kernelized_attention, check_mapped
from linattn_keras.portable._attend import attend
from linattn_keras.portable._describe import as_tensor, describe, sizes
from linattn_keras.portable._documentation import documented_as
from linattn_keras.portable._tokens import Tensor, Tokens, finish, keep, number, prepare, wide_dtype
from linattn_keras.portable.feature_maps import elu_plus_one, relu

KernelState = tuple[Tensor, Tensor] | tuple[Tensor]
Form = Callable[[Tokens, Tensor], tuple[Tensor, Tensor]]


@documented_as(linattn_core.kernelized_attention)
def kernelized_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    feature_map: str | Callable[[Tensor], Tensor] = "elu_plus_one",
    causal: bool = False,
    use_normalizer: bool = True,
    epsilon: float = 1e-6,
    mask: Tensor | None = None,
    segment_ids: Tensor | None = None,
    initial_state: KernelState | None = None,
    execution_mode: str = "auto",
    chunk_size: int = 64,
) -> tuple[Tensor, KernelState | None]:
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
    dtype = wide_dtype(query)
    output_dtype, width = value.dtype, sizes(value)[3]
    phi = _named(feature_map, epsilon) if isinstance(feature_map, str) else feature_map
    # Zeroed before the map too: the gradient of a map at NaN is NaN, also when unused.
    mapped_query = phi(keep(mask, ops.cast(query, dtype)))
    mapped_key = phi(keep(mask, ops.cast(key, dtype)))
    if not isinstance(feature_map, str):
        mapped_query = as_tensor("feature_map(query)", mapped_query)
        mapped_key = as_tensor("feature_map(key)", mapped_key)
        check_mapped(describe, query, key, mapped_query, mapped_key, initial_state)
        mapped_query, mapped_key = ops.cast(mapped_query, dtype), ops.cast(mapped_key, dtype)
    value = ops.cast(value, dtype)
    if use_normalizer:
        value = ops.concatenate([value, ops.ones_like(value[..., :1])], axis=-1)
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

    def form(tokens: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
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
        denominator = read[..., width:] + number(epsilon, dtype)
        if mask is not None:
            real = ops.reshape(mask, sizes(denominator)[:2] + [1, 1, 1])
            denominator = ops.where(real, denominator, 1.0)
        output = output / denominator
    return finish(output, mask, output_dtype), final_state


def _named(feature_map: str, epsilon: float) -> Callable[[Tensor], Tensor]:
    if feature_map == "elu_plus_one":
        return elu_plus_one
    if feature_map == "relu":
        return lambda x: relu(x, epsilon)
    return lambda x: x


def _join_state(state: KernelState, dtype: str) -> Tensor:
    """S, or S with Z as its last column: the state of the values with a column of ones."""
    parts = [ops.cast(x, dtype) for x in state]
    if len(parts) == 1:
        return parts[0]
    return ops.concatenate([parts[0], parts[1][..., None]], axis=-1)


def _read_all(tokens: Tokens) -> Tensor:
    """Every query reads the sum over the whole sequence (equations (13)-(14))."""
    state = ops.einsum("bthk,bthv->bhkv", tokens.key, tokens.value)
    return ops.einsum("bthrk,bhkv->bthrv", tokens.query, state)


def _read_segments(tokens: Tokens, starts: Tensor, state: Tensor, form: Form) -> Tensor:
    """Every query reads the sum over its segment: the tokens up to it, then those after it.

    The second sum is the causal form on the reversed sequence, where each token writes what
    the token after it wrote, and nothing at the end of a segment.
    """
    up_to, _ = form(tokens, state)
    ends = _next(starts)
    after_each = Tokens(
        query=tokens.query,
        key=ops.where(ends == 0, _next(tokens.key), 0.0),
        value=ops.where(ends == 0, _next(tokens.value), 0.0),
        log_decay=ends,
        beta=None,
    )
    after, _ = form(after_each.map(lambda x: ops.flip(x, axis=1)), state)
    return up_to + ops.flip(after, axis=1)


def _next(x: Tensor) -> Tensor:
    """`x` `[B, T, ...]` of the token after each one, 0 after the last."""
    return ops.concatenate([x[:, 1:], ops.zeros_like(x[:, :1])], axis=1)
