"""The definition of linear attention: a loop over tokens that reads like the equations.

The numbers in the comments are the equations of math/linear_attention.md. Everything here
is float64 (or complex128, which is how complex steps differentiate it), one head at a time,
and neither fast nor careful about bad input. It is what every implementation is measured
against.
"""

import numpy as np

UPDATE_RULES = ("linear", "gated", "delta", "gated_delta")


def wide(x):
    """`x` as float64, or unchanged when it is complex128 already."""
    x = np.asarray(x)
    return x if x.dtype == np.complex128 else x.astype(np.float64)


def linear_attention(
    query,
    key,
    value,
    *,
    update_rule="linear",
    log_decay=None,
    beta=None,
    initial_state=None,
    mask=None,
    segment_ids=None,
    scale=None,
):
    """Linear attention with an optional decay and delta correction, equations (1)-(5).

    Args:
        query: `[B, T, Hq, Dk]`.
        key: `[B, T, Hk, Dk]`, Hk divides Hv.
        value: `[B, T, Hv, Dv]`, Hq divides Hv or Hv divides Hq.
        update_rule: "linear", "gated", "delta" or "gated_delta".
        log_decay: `[B, T, Hv]` or `[B, T, Hv, Dk]`, for the gated rules.
        beta: `[B, T, Hv]` or `[B, T, 1]`, for the delta rules.
        initial_state: `[B, Hv, Dk, Dv]`, None for zeros.
        mask: bool `[B, T]`, True for a real token, None for all of them.
        segment_ids: int `[B, T]`, None for one segment.
        scale: None for Dk ** -0.5.

    Returns:
        output `[B, T, max(Hq, Hv), Dv]` and final_state `[B, Hv, Dk, Dv]`.
    """
    heads = _Heads(query, key, value, log_decay, beta, initial_state, mask, segment_ids, scale)
    dtype = np.result_type(
        *(wide(x) for x in (query, key, value, log_decay, beta, initial_state) if x is not None)
    )
    output = np.zeros(heads.output_shape, dtype)
    final_state = np.zeros(heads.state_shape, dtype)
    for b, h in heads:
        head = heads.inputs(b, h)
        output[heads.rows(b, h)], final_state[b, h], _ = _forward(update_rule, dtype, *head)
    return output, final_state


def linear_attention_step(
    query, key, value, state, *, update_rule="linear", log_decay=None, beta=None, scale=None
):
    """One token: `linear_attention` at T = 1 without the time axis, equation (6)."""

    def token(x):
        return None if x is None else np.asarray(x)[:, None]

    output, final_state = linear_attention(
        token(query),
        token(key),
        token(value),
        update_rule=update_rule,
        log_decay=token(log_decay),
        beta=token(beta),
        initial_state=state,
        scale=scale,
    )
    return output[:, 0], final_state


def linear_attention_vjp(
    query,
    key,
    value,
    *,
    output_cotangent,
    final_state_cotangent,
    update_rule="linear",
    log_decay=None,
    beta=None,
    initial_state=None,
    mask=None,
    segment_ids=None,
    scale=None,
):
    """The gradient of sum(output_cotangent * output) + sum(final_state_cotangent * final_state).

    The reverse recurrence, equations (R1)-(R9). No sum in it cancels.

    Returns:
        A dict with the float64 gradient of every float argument that was given, by name;
        "initial_state" is there also when none was given.
    """
    heads = _Heads(query, key, value, log_decay, beta, initial_state, mask, segment_ids, scale)
    gradient = {
        "query": np.zeros(np.shape(query)),
        "key": np.zeros(np.shape(key)),
        "value": np.zeros(np.shape(value)),
        "initial_state": np.zeros(heads.state_shape),
    }
    if log_decay is not None:
        gradient["log_decay"] = np.zeros(np.shape(log_decay))
    if beta is not None:
        gradient["beta"] = np.zeros(np.shape(beta))

    for b, h in heads:
        head = heads.inputs(b, h)
        _, _, tape = _forward(update_rule, np.float64, *head)
        dq, dk, dv, dg, dbeta, ds = _backward(
            update_rule,
            *head,
            tape,
            wide(output_cotangent)[heads.rows(b, h)],
            wide(final_state_cotangent)[b, h],
        )
        gradient["query"][heads.query_rows(b, h)] += dq
        gradient["key"][b, :, heads.key_head(h)] += dk
        gradient["value"][b, :, h] += dv
        gradient["initial_state"][b, h] += ds
        if log_decay is not None:
            gradient["log_decay"][b, :, h] += dg if np.ndim(log_decay) == 4 else dg.sum(-1)
        if beta is not None:
            gradient["beta"][b, :, h % np.shape(beta)[2]] += dbeta
    return gradient


def _forward(update_rule, dtype, q, k, v, g, beta, state, keep, starts, scale):
    """One state head. q `[T, R, Dk]` holds the R query heads that read this state."""
    delta = update_rule in ("delta", "gated_delta")
    output = np.zeros(q.shape[:2] + v.shape[1:], dtype)
    tape = []
    for t in range(len(q)):
        if starts[t]:
            state = np.zeros_like(state)  # (5)
        previous, decayed, error, write = state, state, None, None
        if keep[t]:
            decayed = np.exp(g[t])[:, None] * state  # (1)
            error = v[t] - k[t] @ decayed if delta else v[t]  # (2)
            write = beta[t] * error if delta else error  # (2)
            state = decayed + np.outer(k[t], write)  # (3)
            output[t] = scale * q[t] @ state  # (4)
        tape.append((previous, decayed, error, write, state))
    return output, state, tape


def _backward(update_rule, q, k, v, g, beta, state, keep, starts, scale, tape, do, ds):
    delta = update_rule in ("delta", "gated_delta")
    dq, dk, dv, dg, dbeta = (np.zeros(x.shape) for x in (q, k, v, g, beta))
    for t in reversed(range(len(q))):
        previous, decayed, error, write, after = tape[t]
        if keep[t]:
            dq[t] = scale * do[t] @ after.T  # (R1)
            ds = ds + scale * q[t].T @ do[t]  # (R2)
            dwrite = k[t] @ ds  # (R3)
            dk[t] = ds @ write  # (R4)
            if delta:
                dbeta[t] = error @ dwrite  # (R5)
                dwrite = beta[t] * dwrite  # (R6)
                dk[t] -= decayed @ dwrite  # (R7)
                ds = ds - np.outer(k[t], dwrite)  # (R7)
            dv[t] = dwrite  # (R6)
            dg[t] = np.exp(g[t]) * np.sum(previous * ds, axis=1)  # (R8)
            ds = np.exp(g[t])[:, None] * ds  # (R9)
        if starts[t]:
            ds = np.zeros_like(ds)  # (R9)
    return dq, dk, dv, dg, dbeta, ds


class _Heads:
    """Which query, key and gate belong to which state head: neighbours share (repeat, not tile)."""

    def __init__(self, query, key, value, log_decay, beta, initial_state, mask, segment_ids, scale):
        self._query, self._key, self._value = wide(query), wide(key), wide(value)
        B, T, Hq, Dk = self._query.shape
        Hv, Dv = self._value.shape[2:]
        self.output_shape = (B, T, max(Hq, Hv), Dv)
        self.state_shape = (B, Hv, Dk, Dv)
        self._group = max(Hq // Hv, 1)
        self._keep = np.ones((B, T), bool) if mask is None else np.asarray(mask)
        self._starts = np.zeros((B, T), bool)
        if segment_ids is not None:
            ids = np.asarray(segment_ids)
            self._starts[:, 1:] = ids[:, 1:] != ids[:, :-1]
        log_decay = np.zeros((B, T, Hv)) if log_decay is None else wide(log_decay)
        if log_decay.ndim == 3:
            log_decay = log_decay[..., None]
        self._log_decay = np.broadcast_to(log_decay, (B, T, Hv, Dk))
        beta = np.ones((B, T, Hv)) if beta is None else wide(beta)
        self._beta = np.broadcast_to(beta, (B, T, Hv))
        self._state = np.zeros(self.state_shape) if initial_state is None else wide(initial_state)
        self._scale = Dk**-0.5 if scale is None else scale

    def __iter__(self):
        return iter(np.ndindex(self.state_shape[:2]))

    def query_rows(self, b, h):
        """The queries that read state head h: Hq / Hv neighbours, or one that Hv / Hq heads share."""
        Hq, Hv = self._query.shape[2], self._value.shape[2]
        first = h * Hq // Hv
        return b, slice(None), slice(first, first + self._group)

    def rows(self, b, h):
        return b, slice(None), slice(h * self._group, (h + 1) * self._group)

    def key_head(self, h):
        return h * self._key.shape[2] // self._value.shape[2]

    def inputs(self, b, h):
        return (
            self._query[self.query_rows(b, h)],
            self._key[b, :, self.key_head(h)],
            self._value[b, :, h],
            self._log_decay[b, :, h],
            self._beta[b, :, h],
            self._state[b, h],
            self._keep[b],
            self._starts[b],
            self._scale,
        )
