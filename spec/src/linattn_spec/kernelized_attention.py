"""The definition of normalised kernel attention, equations (7)-(8) and (13)-(14)."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from linattn_spec.arrays import Array, Arrays, wide
from linattn_spec.feature_maps import feature_map as named_feature_map
from linattn_spec.linear_attention import linear_attention_vjp


def kernelized_attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    feature_map: str = "elu_plus_one",
    causal: bool = False,
    use_normalizer: bool = True,
    epsilon: float = 1e-6,
    mask: Array | None = None,
    segment_ids: Array | None = None,
    initial_state: Sequence[Array] | None = None,
) -> tuple[Array, tuple[Array, ...] | None]:
    """Kernel attention, causal (7)-(8) or not (13)-(14), normalised or not.

    Args:
        query, key: `[B, T, H, Dk]`; value: `[B, T, H, Dv]`. Heads group as in linear_attention.
        feature_map: "elu_plus_one", "relu" or "identity".
        epsilon: added to the denominator, and by "relu" to the mapped values.
        mask: bool `[B, T]`, applied after the map.
        segment_ids: int `[B, T]`.
        initial_state: causal only; (key_value_state `[B, H, Dk, Dv]`, key_state `[B, H, Dk]`),
            or (key_value_state,) when not normalised.

    Returns:
        output `[B, T, max(Hq, Hv), Dv]`, and the final state in the structure of initial_state,
        None when not causal.
    """
    phi, _ = named_feature_map(feature_map, epsilon)
    query, key, value = wide(query), wide(key), wide(value)
    B, T, Hq, Dk = query.shape
    Hk, Hv, Dv = key.shape[2], value.shape[2], value.shape[3]
    group = max(Hq // Hv, 1)
    state = [np.zeros((B, Hv, Dk, Dv)), np.zeros((B, Hv, Dk))]
    if initial_state is not None:
        state[: len(initial_state)] = [wide(x) for x in initial_state]
    dtype = np.result_type(query, key, value, *state)
    state = [x.astype(dtype) for x in state]
    keep = np.ones((B, T), bool) if mask is None else np.asarray(mask)
    segment = _segments(segment_ids, keep.shape)
    output = np.zeros((B, T, max(Hq, Hv), Dv), dtype)

    for b in range(B):
        for t in range(T):
            if causal and t > 0 and segment[b, t] != segment[b, t - 1]:
                state[0][b], state[1][b] = 0, 0
            for h in range(Hv):
                tokens: Iterable[int]
                if causal:
                    tokens = [t] if keep[b, t] else []
                    S, Z = state[0][b, h], state[1][b, h]
                else:
                    tokens = np.flatnonzero((segment[b] == segment[b, t]) & keep[b])
                    S, Z = np.zeros((Dk, Dv), dtype), np.zeros(Dk, dtype)
                for j in tokens:
                    mapped = phi(key[b, j, h * Hk // Hv])
                    S = S + np.outer(mapped, value[b, j, h])  # (7) (13)
                    Z = Z + mapped  # (7) (13)
                if causal:
                    state[0][b, h], state[1][b, h] = S, Z
                if not keep[b, t]:
                    continue
                for r in range(group):
                    mapped = phi(query[b, t, h * Hq // Hv + r])
                    read = mapped @ S  # (8) (14)
                    if use_normalizer:
                        read = read / (mapped @ Z + epsilon)  # (8) (14)
                    output[b, t, h * group + r] = read
    if not causal:
        return output, None
    return output, tuple(state) if use_normalizer else (state[0],)


def kernelized_attention_vjp(
    query: Array,
    key: Array,
    value: Array,
    *,
    output_cotangent: Array,
    final_state_cotangent: Sequence[Array] | None = None,
    feature_map: str = "elu_plus_one",
    causal: bool = False,
    use_normalizer: bool = True,
    epsilon: float = 1e-6,
    mask: Array | None = None,
    segment_ids: Array | None = None,
    initial_state: Sequence[Array] | None = None,
) -> dict[str, Any]:
    """The gradient of sum(output_cotangent * output) + sum(final_state_cotangent * final_state).

    Kernel attention is the rule "linear" on mapped keys and values with a column of ones, so
    its gradient is the reverse recurrence with the quotient (R10) before it and the derivative
    of the map (R11) after it. Not causal, the sums over a whole segment take its place.

    Returns:
        A dict with the gradients of "query", "key", "value" and, causal, "initial_state", a tuple.
    """
    phi, derivative = named_feature_map(feature_map, epsilon)
    keep = np.ones(np.shape(query)[:2], bool) if mask is None else np.asarray(mask)
    live = keep[..., None, None]
    # A masked token may hold NaN; its gradient is zero whatever it holds.
    query, key, value = (np.where(live, wide(x), 0) for x in (query, key, value))
    Dv = value.shape[3]
    state = None if initial_state is None else _with_column(*initial_state)

    def attend(value: Array, use_normalizer: bool, state: Sequence[Array] | None) -> Array:
        return kernelized_attention(
            query, key, value, feature_map=feature_map, causal=causal, epsilon=epsilon,
            use_normalizer=use_normalizer, mask=mask, segment_ids=segment_ids, initial_state=state,
        )[0]  # fmt: skip

    output = attend(value, use_normalizer, initial_state)
    d_output = wide(output_cotangent) * live
    if use_normalizer:
        value = np.concatenate([value, np.ones_like(value[..., :1])], axis=-1)
        read = attend(value, False, None if state is None else (state,))
        denominator = np.where(keep[..., None], read[..., -1] + epsilon, 1)[..., None]
        d_output = np.concatenate(
            [d_output / denominator, -np.sum(d_output * output, -1, keepdims=True) / denominator],
            axis=-1,
        )  # (R10)
    if causal:
        d_state = np.zeros((value.shape[0], value.shape[2], query.shape[3], value.shape[3]))
        if final_state_cotangent is not None:
            d_state = _with_column(*final_state_cotangent)
        gradient = linear_attention_vjp(
            phi(query),
            phi(key),
            value,
            output_cotangent=d_output,
            final_state_cotangent=d_state,
            initial_state=state,
            mask=mask,
            segment_ids=segment_ids,
            scale=1.0,
        )
    else:
        segment = _segments(segment_ids, keep.shape)
        gradient = _whole_segment_vjp(phi(query), phi(key), value, d_output, keep, segment)
    result: dict[str, Any] = {
        "query": gradient["query"] * derivative(query) * live,  # (R11)
        "key": gradient["key"] * derivative(key) * live,  # (R11)
        "value": gradient["value"][..., :Dv] * live,
    }
    if causal:
        ds = gradient["initial_state"]
        result["initial_state"] = (ds[..., :Dv], ds[..., Dv]) if use_normalizer else (ds,)
    return result


def _whole_segment_vjp(
    query: Array, key: Array, value: Array, d_output: Array, keep: Array, segment: Array
) -> Arrays:
    """Gradients of read[t] = query[t] @ (sum of outer(key[j], value[j]) over t's segment)."""
    Hq, Hk, Hv = query.shape[2], key.shape[2], value.shape[2]
    group = max(Hq // Hv, 1)
    gradient = {n: np.zeros(x.shape) for n, x in dict(query=query, key=key, value=value).items()}
    for b, t in zip(*np.nonzero(keep), strict=True):
        for j in np.flatnonzero((segment[b] == segment[b, t]) & keep[b]):
            for h in range(Hv * group):
                hq, hv = h * Hq // (Hv * group), h // group
                hk = hv * Hk // Hv
                q, k, v, do = query[b, t, hq], key[b, j, hk], value[b, j, hv], d_output[b, t, h]
                gradient["query"][b, t, hq] += k * (v @ do)
                gradient["key"][b, j, hk] += q * (v @ do)
                gradient["value"][b, j, hv] += do * (q @ k)
    return gradient


def _with_column(key_value_state: Array, key_state: Array | None = None) -> Array:
    """[S, Z] as one matrix with one more column, or S alone."""
    if key_state is None:
        return wide(key_value_state)
    return np.concatenate([wide(key_value_state), wide(key_state)[..., None]], axis=-1)


def _segments(segment_ids: Array | None, shape: tuple[int, ...]) -> Array:
    """Numbers the runs of equal neighbouring ids, so that an id that returns is a new segment."""
    ids = np.zeros(shape, int) if segment_ids is None else np.asarray(segment_ids)
    changes = np.zeros(shape, int)
    changes[:, 1:] = ids[:, 1:] != ids[:, :-1]
    return np.cumsum(changes, axis=1)
