"""The definition of linear attention: a loop over tokens that reads like the equations.

The numbers in the comments are the equations of math/linear_attention.md. Everything here
is float64 (or complex128, which is how complex steps differentiate it), one head at a time,
and neither fast nor careful about bad input. It is what every implementation is measured
against.
"""

import numpy as np
import numpy.typing as npt

from linattn_spec.arrays import Array, Arrays, wide
from linattn_spec.heads import Heads

UPDATE_RULES = ("linear", "gated", "delta", "gated_delta")

# S_{t-1}, S'_t, e_t, w_t, S_t: what the reverse recurrence needs of a token.
_Token = tuple[Array, Array, Array, Array, Array]


def linear_attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    update_rule: str = "linear",
    log_decay: Array | None = None,
    beta: Array | None = None,
    initial_state: Array | None = None,
    mask: Array | None = None,
    segment_ids: Array | None = None,
    scale: float | None = None,
) -> tuple[Array, Array]:
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
    heads = Heads(query, key, value, log_decay, beta, initial_state, mask, segment_ids, scale)
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
    query: Array,
    key: Array,
    value: Array,
    state: Array,
    *,
    update_rule: str = "linear",
    log_decay: Array | None = None,
    beta: Array | None = None,
    scale: float | None = None,
) -> tuple[Array, Array]:
    """One token: `linear_attention` at T = 1 without the time axis, equation (6)."""

    def token(x: Array) -> Array:
        return np.expand_dims(x, 1)

    output, final_state = linear_attention(
        token(query),
        token(key),
        token(value),
        update_rule=update_rule,
        log_decay=None if log_decay is None else token(log_decay),
        beta=None if beta is None else token(beta),
        initial_state=state,
        scale=scale,
    )
    return output[:, 0], final_state


def linear_attention_vjp(
    query: Array,
    key: Array,
    value: Array,
    *,
    output_cotangent: Array,
    final_state_cotangent: Array,
    update_rule: str = "linear",
    log_decay: Array | None = None,
    beta: Array | None = None,
    initial_state: Array | None = None,
    mask: Array | None = None,
    segment_ids: Array | None = None,
    scale: float | None = None,
) -> Arrays:
    """The gradient of sum(output_cotangent * output) + sum(final_state_cotangent * final_state).

    The reverse recurrence, equations (R1)-(R9). No sum in it cancels.

    Returns:
        A dict with the float64 gradient of every float argument that was given, by name;
        "initial_state" is there also when none was given.
    """
    heads = Heads(query, key, value, log_decay, beta, initial_state, mask, segment_ids, scale)
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


def _forward(
    update_rule: str,
    dtype: npt.DTypeLike,
    q: Array,
    k: Array,
    v: Array,
    g: Array,
    beta: Array,
    state: Array,
    keep: Array,
    starts: Array,
    scale: float,
) -> tuple[Array, Array, list[_Token]]:
    """One state head. q `[T, R, Dk]` holds the R query heads that read this state."""
    delta = update_rule in ("delta", "gated_delta")
    output = np.zeros(q.shape[:2] + v.shape[1:], dtype)
    nothing = np.zeros(v.shape[1:], dtype)
    tape = []
    for t in range(len(q)):
        if starts[t]:
            state = np.zeros_like(state)  # (5)
        previous, decayed, error, write = state, state, nothing, nothing
        if keep[t]:
            decayed = np.exp(g[t])[:, None] * state  # (1)
            error = v[t] - k[t] @ decayed if delta else v[t]  # (2)
            write = beta[t] * error if delta else error  # (2)
            state = decayed + np.outer(k[t], write)  # (3)
            output[t] = scale * q[t] @ state  # (4)
        tape.append((previous, decayed, error, write, state))
    return output, state, tape


def _backward(
    update_rule: str,
    q: Array,
    k: Array,
    v: Array,
    g: Array,
    beta: Array,
    state: Array,
    keep: Array,
    starts: Array,
    scale: float,
    tape: list[_Token],
    do: Array,
    ds: Array,
) -> tuple[Array, Array, Array, Array, Array, Array]:
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
