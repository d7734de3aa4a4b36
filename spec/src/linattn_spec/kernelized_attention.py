"""The definition of normalised kernel attention, equations (7)-(8) and (13)-(14)."""

import numpy as np

from linattn_spec.feature_maps import feature_map as named_feature_map
from linattn_spec.linear_attention import linear_attention_vjp, wide


def kernelized_attention(
    query,
    key,
    value,
    *,
    feature_map="elu_plus_one",
    causal=False,
    use_normalizer=True,
    epsilon=1e-6,
    mask=None,
    segment_ids=None,
    initial_state=None,
):
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
    segment = _runs(np.zeros((B, T), int) if segment_ids is None else np.asarray(segment_ids))
    output = np.zeros((B, T, max(Hq, Hv), Dv), dtype)

    for b in range(B):
        for t in range(T):
            if causal and t > 0 and segment[b, t] != segment[b, t - 1]:
                state[0][b], state[1][b] = 0, 0
            for h in range(Hv):
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
    query,
    key,
    value,
    *,
    output_cotangent,
    final_state_cotangent=None,
    feature_map="elu_plus_one",
    causal=False,
    use_normalizer=True,
    epsilon=1e-6,
    mask=None,
    segment_ids=None,
    initial_state=None,
):
    """The gradient of sum(output_cotangent * output) + sum(final_state_cotangent * final_state).

    Kernel attention is the rule "linear" on mapped keys and values with a column of ones, so
    its gradient is the reverse recurrence with the quotient (R10) before it and the derivative
    of the map (R11) after it. Not causal, the sum over a whole segment is the causal sum plus
    the causal sum of the reversed tokens without the token itself.

    Returns:
        A dict with the gradients of "query", "key", "value" and, causal, "initial_state", a tuple.
    """
    phi, derivative = named_feature_map(feature_map, epsilon)
    keep = np.ones(np.shape(query)[:2], bool) if mask is None else np.asarray(mask)
    # A masked token may hold NaN; its gradient is zero whatever it holds.
    query, key, value = (np.where(keep[..., None, None], wide(x), 0) for x in (query, key, value))
    Hq, Hk, Hv = query.shape[2], key.shape[2], value.shape[2]
    B, T, _, Dk = query.shape
    Dv = value.shape[3]
    segment = _runs(np.zeros((B, T), int) if segment_ids is None else np.asarray(segment_ids))

    output, _ = kernelized_attention(
        query, key, value, feature_map=feature_map, causal=causal, use_normalizer=use_normalizer,
        epsilon=epsilon, mask=mask, segment_ids=segment_ids, initial_state=initial_state,
    )  # fmt: skip
    d_output = wide(output_cotangent) * keep[..., None, None]
    if use_normalizer:
        value = np.concatenate([value, np.ones_like(value[..., :1])], axis=-1)
        arguments = dict(feature_map=feature_map, causal=causal, use_normalizer=False, mask=mask)
        state = None
        if initial_state is not None:
            state = (_with_column(*initial_state),)
        read, _ = kernelized_attention(
            query, key, value, epsilon=epsilon, segment_ids=segment_ids, initial_state=state,
            **arguments,
        )  # fmt: skip
        denominator = np.where(keep[..., None], read[..., -1] + epsilon, 1)[..., None]
        d_output = np.concatenate(
            [d_output / denominator, -np.sum(d_output * output, -1, keepdims=True) / denominator],
            axis=-1,
        )  # (R10)
    columns = value.shape[3]
    state = np.zeros((B, Hv, Dk, columns))
    d_state = np.zeros((B, Hv, Dk, columns))
    if initial_state is not None:
        state = _with_column(*initial_state)
    if final_state_cotangent is not None:
        d_state = _with_column(*final_state_cotangent)

    mapped = dict(query=phi(query), key=phi(key), value=value)
    if causal:
        gradient = linear_attention_vjp(
            **mapped, output_cotangent=d_output, final_state_cotangent=d_state, initial_state=state,
            mask=mask, segment_ids=segment_ids, scale=1.0,
        )  # fmt: skip
    else:
        gradient = _whole_segment_vjp(**mapped, d_output=d_output, keep=keep, segment=segment)
    live = keep[..., None, None]
    result = {
        "query": gradient["query"] * derivative(query) * live,  # (R11)
        "key": gradient["key"] * derivative(key) * live,  # (R11)
        "value": gradient["value"][..., :Dv] * live,
    }
    if causal:
        ds = gradient["initial_state"]
        result["initial_state"] = (ds[..., :Dv], ds[..., Dv]) if use_normalizer else (ds,)
    return result


def _whole_segment_vjp(query, key, value, d_output, keep, segment):
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


def _with_column(key_value_state, key_state=None):
    """[S, Z] as one matrix with one more column, or S alone."""
    if key_state is None:
        return wide(key_value_state)
    return np.concatenate([wide(key_value_state), wide(key_state)[..., None]], axis=-1)


def _runs(segment_ids):
    """Numbers the runs of equal neighbouring ids, so that an id that returns is a new segment."""
    changes = np.zeros(segment_ids.shape, int)
    changes[:, 1:] = segment_ids[:, 1:] != segment_ids[:, :-1]
    return np.cumsum(changes, axis=1)
