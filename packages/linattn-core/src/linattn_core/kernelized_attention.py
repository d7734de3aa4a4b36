"""kernelized_attention on NumPy arrays: the rule "linear" on mapped keys."""

from collections.abc import Callable
from typing import Any

import numpy as np

from linattn_core._attend import attend
from linattn_core._describe import describe
from linattn_core._tokens import Array, Tokens, finish, keep, prepare
from linattn_core.checks import check_kernelized_attention, check_mapped
from linattn_core.dtypes import compute_dtype
from linattn_core.feature_maps import elu_plus_one, relu

KernelState = tuple[Array, Array] | tuple[Array]
Form = Callable[[Tokens, Array], tuple[Array, Array]]


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
    """Kernel attention, causal with a streaming state or over the whole sequence.

    For every head (equations (7)-(8) and (13)-(14) of spec/math/linear_attention.md), with phi
    the feature map and the sums over j <= t if causal, else over all tokens of the segment:

        S = sum of outer(phi(key[j]), value[j]);    Z = sum of phi(key[j])
        output[t] = phi(query[t]) @ S / (phi(query[t]) @ Z + epsilon)

    Args:
        query: `[B, T, Hq, Dk]`, any real float dtype. Hq divides Hv or Hv divides Hq.
        key: `[B, T, Hk, Dk]`, the dtype of query. Hk divides Hv.
        value: `[B, T, Hv, Dv]`, the dtype of query. Heads are shared by neighbours.
        feature_map: "elu_plus_one"; "relu", which is relu + epsilon; "identity"; or a callable
            from `[B, T, H, Dk]` to `[B, T, H, any]`, called in the dtype computed in.
        causal: whether a token sees only itself and the tokens before it.
        use_normalizer: False leaves the division out, and Z with it.
        epsilon: a number >= 0, added to the denominator (and by "relu" to the mapped values).
        mask: bool `[B, T]`, True for a real token; None for all of them. Applied after the map:
            a masked token adds nothing, gives output 0, gets gradient 0, and may hold NaN.
        segment_ids: integers `[B, T]`; tokens see only their own run of equal ids.
        initial_state: causal only, None for zeros: (key_value_state `[B, Hv, Dk, Dv]`, key_state
            `[B, Hv, Dk]`) over mapped keys, or (key_value_state,) when not normalised.
        execution_mode, chunk_size: as in `linear_attention`; no difference when not causal.

    Returns:
        output `[B, T, max(Hq, Hv), Dv]`, the dtype of value, and the final state, in the
        structure of initial_state and the dtype computed in (float64 for float64 inputs, else
        float32, the feature map included); None when not causal. The output is rounded once.

    Raises:
        ValueError: a shape, an unknown name, a state when not causal, the wrong structure of a
            state, a chunk_size below 1, or a negative epsilon.
        TypeError: an integer or complex argument, query, key and value of different dtypes, or
            something that is not a tensor.

    References:
        Katharopoulos et al., Transformers are RNNs, 2020, https://arxiv.org/abs/2006.16236
    """
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
    dtype = np.dtype(compute_dtype(query.dtype.name))
    output_dtype, width = value.dtype, value.shape[3]
    phi = _named(feature_map, epsilon) if isinstance(feature_map, str) else feature_map
    # Zeroed before the map too: the gradient of a map at NaN is NaN, also when unused.
    mapped_query = phi(keep(mask, query.astype(dtype)))
    mapped_key = phi(keep(mask, key.astype(dtype)))
    if not isinstance(feature_map, str):
        check_mapped(describe, query, key, mapped_query, mapped_key, initial_state)
        # A callable may widen, as NumPy does by itself where it meets a float64 scalar.
        mapped_query, mapped_key = mapped_query.astype(dtype), mapped_key.astype(dtype)
    value = value.astype(dtype)
    if use_normalizer:
        value = np.concatenate([value, np.ones_like(value[..., :1])], axis=-1)
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
        denominator = read[..., width:] + dtype.type(epsilon)
        if mask is not None:
            denominator = np.where(mask[..., None, None, None], denominator, dtype.type(1))
        output = output / denominator
    return finish(output, mask, output_dtype), final_state


def _named(feature_map: str, epsilon: float) -> Callable[[Array], Array]:
    if feature_map == "elu_plus_one":
        return elu_plus_one
    if feature_map == "relu":
        return lambda x: relu(x, epsilon)
    return lambda x: x


def _join_state(state: KernelState, dtype: Any) -> Array:
    """S, or S with Z as its last column: the state of the values with a column of ones."""
    parts = [x.astype(dtype) for x in state]
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([parts[0], parts[1][..., None]], axis=-1)


def _read_all(tokens: Tokens) -> Array:
    """Every query reads the sum over the whole sequence (equations (13)-(14))."""
    state = tokens.key.transpose(0, 2, 3, 1) @ tokens.value.swapaxes(1, 2)
    read: Array = tokens.query @ state[:, None]
    return read


def _read_segments(tokens: Tokens, starts: Array, state: Array, form: Form) -> Array:
    """Every query reads the sum over its segment: the tokens up to it, then those after it.

    The second sum is the causal form on the reversed sequence, where each token writes what
    the token after it wrote, and nothing at the end of a segment.
    """
    up_to, _ = form(tokens, state)
    after, _ = form(_after_each(tokens, starts).map(lambda x: x[:, ::-1]), state)
    return up_to + after[:, ::-1]


def _after_each(tokens: Tokens, starts: Array) -> Tokens:
    """Every query with the key and value after it, nothing at the end of a segment."""
    ends = _next(starts)
    return Tokens(
        query=tokens.query,
        key=np.where(ends == 0, _next(tokens.key), 0),
        value=np.where(ends == 0, _next(tokens.value), 0),
        log_decay=ends,
        beta=None,
    )


def _next(x: Array) -> Array:
    """`x` `[B, T, ...]` of the token after each one, 0 after the last."""
    return np.concatenate([x[:, 1:], np.zeros_like(x[:, :1])], axis=1)
