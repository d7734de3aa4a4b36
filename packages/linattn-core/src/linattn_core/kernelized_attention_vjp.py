"""The gradients of kernelized_attention: those of the rule "linear" on mapped keys."""

from collections.abc import Callable
from typing import Any

import numpy as np

from linattn_core._attend import attend
from linattn_core._attend_vjp import attend_vjp
from linattn_core._cotangents import OUTPUT, check_cotangent, check_kernel_cotangent
from linattn_core._describe import describe
from linattn_core._tokens import Array, Tokens, keep, prepare
from linattn_core._tokens_vjp import finish_vjp, prepare_vjp
from linattn_core.checks import check_kernelized_attention, check_mapped
from linattn_core.dtypes import compute_dtype
from linattn_core.feature_maps_vjp import elu_plus_one_vjp, relu_vjp
from linattn_core.kernelized_attention import (
    KernelState,
    _after_each,
    _join_state,
    _named,
    _read_all,
    _read_segments,
)

FeatureMap = Callable[[Array], Array]
FeatureMapVjp = Callable[[Array, Array], Array]
FormVjp = Callable[[Tokens, Array, Array, Array], tuple[Tokens, Array]]


def kernelized_attention_vjp(
    query: Array,
    key: Array,
    value: Array,
    *,
    output_cotangent: Array | None = None,
    final_state_cotangent: KernelState | None = None,
    feature_map: str | FeatureMap = "elu_plus_one",
    feature_map_vjp: FeatureMapVjp | None = None,
    causal: bool = False,
    use_normalizer: bool = True,
    epsilon: float = 1e-6,
    mask: Array | None = None,
    segment_ids: Array | None = None,
    initial_state: KernelState | None = None,
    execution_mode: str = "auto",
    chunk_size: int = 64,
) -> dict[str, Any]:
    """The gradients of sum(output_cotangent * output) + sum(final_state_cotangent * final_state).

    With output and final_state those of `kernelized_attention` on the same arguments: the
    quotient (R10), the gradients of the rule "linear", and the derivative of the map (R11) of
    spec/math/linear_attention.md.

    Args:
        output_cotangent: `[B, T, max(Hq, Hv), Dv]`, any real float dtype; None for zeros. What it
            holds at masked tokens does not count.
        final_state_cotangent: causal only, in the structure of the final state; None for zeros.
        feature_map_vjp: for a callable feature_map only, and needed then: from what the map was
            called with and the cotangent of its result to the gradient of the former.
        others: as in `kernelized_attention`.

    Returns:
        By name, the gradients of "query", "key" and "value" in their shapes and dtypes and, when
        causal, of "initial_state" in its structure and dtypes; without one, in the structure of
        the final state and the dtype computed in. Each is rounded once.

    Raises:
        ValueError, TypeError: as `kernelized_attention`, for a cotangent of another shape, and
            for a feature_map_vjp that is missing or superfluous.

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
    phi, phi_vjp = _differentiable(feature_map, feature_map_vjp, epsilon)
    dtype = np.dtype(compute_dtype(query.dtype.name))
    batch, count, query_heads = query.shape[:3]
    heads, width = value.shape[2:]
    output_shape = (batch, count, max(query_heads, heads), width)
    check_cotangent(describe, "output_cotangent", output_cotangent, OUTPUT, output_shape)

    wide_query, wide_key = keep(mask, query.astype(dtype)), keep(mask, key.astype(dtype))
    mapped_query, mapped_key = phi(wide_query), phi(wide_key)
    if not isinstance(feature_map, str):
        check_mapped(describe, query, key, mapped_query, mapped_key, initial_state)
    state_shape = (batch, heads, mapped_key.shape[3], width)
    check_kernel_cotangent(describe, final_state_cotangent, causal, use_normalizer, state_shape)
    wide_value = value.astype(dtype)
    if use_normalizer:
        wide_value = np.concatenate([wide_value, np.ones_like(wide_value[..., :1])], axis=-1)
    arguments: dict[str, Any] = dict(
        query=mapped_query.astype(dtype),
        key=mapped_key.astype(dtype),
        value=wide_value,
        log_decay=None,
        beta=None,
        mask=mask,
        scale=1.0,
    )
    joined = None if initial_state is None else _join_state(initial_state, dtype)
    tokens, state = prepare(**arguments, initial_state=joined, segment_ids=segment_ids)

    def form(tokens: Tokens, state: Array) -> tuple[Array, Array]:
        return attend(tokens, state, execution_mode, chunk_size)

    def form_vjp(
        tokens: Tokens, state: Array, d_read: Array, d_state: Array
    ) -> tuple[Tokens, Array]:
        return attend_vjp(tokens, state, execution_mode, chunk_size, d_read, d_state)

    d_read = finish_vjp(output_cotangent, mask, tokens, width)
    if use_normalizer:
        if causal:
            read, _ = form(tokens, state)
        elif tokens.log_decay is None:
            read = _read_all(tokens)
        else:
            read = _read_segments(tokens, tokens.log_decay, state, form)
        d_read = _quotient_vjp(read, dtype.type(epsilon), mask, d_read)
    d_state = np.zeros_like(state)
    if final_state_cotangent is not None:
        d_state = _join_state(final_state_cotangent, dtype)
    if causal:
        gradient, d_state = form_vjp(tokens, state, d_read, d_state)
    elif tokens.log_decay is None:
        gradient = _read_all_vjp(tokens, d_read)
    else:
        gradient = _read_segments_vjp(tokens, tokens.log_decay, state, d_read, form_vjp)

    mapped = prepare_vjp(gradient, **arguments)
    gradients: dict[str, Any] = {
        "query": keep(mask, phi_vjp(wide_query, mapped["query"])).astype(query.dtype),
        "key": keep(mask, phi_vjp(wide_key, mapped["key"])).astype(key.dtype),
        "value": mapped["value"][..., :width].astype(value.dtype),
    }
    if causal:
        parts = (d_state[..., :width], d_state[..., width]) if use_normalizer else (d_state,)
        like = parts if initial_state is None else initial_state
        gradients["initial_state"] = tuple(
            part.astype(x.dtype) for part, x in zip(parts, like, strict=True)
        )
    return gradients


def _differentiable(
    feature_map: str | FeatureMap, feature_map_vjp: FeatureMapVjp | None, epsilon: float
) -> tuple[FeatureMap, FeatureMapVjp]:
    """The map and its transposed derivative."""
    if callable(feature_map):
        if feature_map_vjp is None:
            raise ValueError("feature_map_vjp must be given for a callable feature_map, got None")
        return feature_map, feature_map_vjp
    if feature_map_vjp is not None:
        raise ValueError(
            f"feature_map_vjp must be None for feature_map '{feature_map}', "
            f"got {type(feature_map_vjp).__name__}"
        )
    vjps: dict[str, FeatureMapVjp] = {
        "elu_plus_one": lambda x, cotangent: elu_plus_one_vjp(x, output_cotangent=cotangent)["x"],
        "relu": lambda x, cotangent: relu_vjp(x, epsilon, output_cotangent=cotangent)["x"],
        "identity": lambda _, cotangent: cotangent,
    }
    return _named(feature_map, epsilon), vjps[feature_map]


def _quotient_vjp(read: Array, epsilon: Any, mask: Array | None, d_output: Array) -> Array:
    """The gradient of [numerator, denominator - epsilon] (R10)."""
    denominator = read[..., -1:] + epsilon
    if mask is not None:
        denominator = np.where(mask[..., None, None, None], denominator, 1)
    d_numerator = d_output / denominator
    output = read[..., :-1] / denominator
    d_denominator = -np.sum(d_numerator * output, axis=-1, keepdims=True)
    return np.concatenate([d_numerator, d_denominator], axis=-1)


def _read_all_vjp(tokens: Tokens, d_read: Array) -> Tokens:
    """The transpose of `_read_all`."""
    query, key, value, _, _ = tokens
    state = key.transpose(0, 2, 3, 1) @ value.swapaxes(1, 2)
    batch, count, heads, group, width = query.shape
    rows = query.transpose(0, 2, 4, 1, 3).reshape(batch, heads, width, count * group)
    d_rows = d_read.swapaxes(1, 2).reshape(batch, heads, count * group, d_read.shape[-1])
    d_state = rows @ d_rows
    d_query = d_read @ state.swapaxes(-1, -2)[:, None]
    d_key = (value.swapaxes(1, 2) @ d_state.swapaxes(-1, -2)).swapaxes(1, 2)
    d_value = (key.swapaxes(1, 2) @ d_state).swapaxes(1, 2)
    return Tokens(d_query, d_key, d_value, None, None)


def _read_segments_vjp(
    tokens: Tokens, starts: Array, state: Array, d_read: Array, form_vjp: FormVjp
) -> Tokens:
    """The transpose of `_read_segments`: what stands for the token after each one goes back to it.

    At a segment's end key and value are both 0, and so is then the gradient of either.
    """
    d_state = np.zeros_like(state)
    up_to, _ = form_vjp(tokens, state, d_read, d_state)
    reversed_after_each = _after_each(tokens, starts).map(_reverse)
    after, _ = form_vjp(reversed_after_each, state, _reverse(d_read), d_state)
    return Tokens(
        query=up_to.query + _reverse(after.query),
        key=up_to.key + _previous(_reverse(after.key)),
        value=up_to.value + _previous(_reverse(after.value)),
        log_decay=None,
        beta=None,
    )


def _reverse(x: Array) -> Array:
    return x[:, ::-1]


def _previous(x: Array) -> Array:
    """`x` `[B, T, ...]` of the token before each one, 0 before the first."""
    return np.concatenate([np.zeros_like(x[:, :1]), x[:, :-1]], axis=1)
