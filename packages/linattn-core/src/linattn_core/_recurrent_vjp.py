"""The gradients of the token-by-token form, equations (R1)-(R9)."""

from operator import itemgetter

import numpy as np

from linattn_core._decay import decay_state
from linattn_core._recurrent import step
from linattn_core._tokens import Array, Tokens


def recurrent_vjp(
    tokens: Tokens, state: Array, d_output: Array, d_state: Array
) -> tuple[Tokens, Array]:
    """The gradients of the tokens and of the initial state, shaped like them.

    Args:
        tokens, state: the arguments of `recurrent`.
        d_output: `[B, T, H, R, Dv]`, of its output.
        d_state: `[B, H, Dk, Dv]`, of its final state.
    """
    token = [tokens.map(itemgetter((slice(None), t))) for t in range(tokens.key.shape[1])]
    before = []
    for t in range(len(token)):
        before.append(state)
        _, state = step(token[t], state)
    gradient = tokens.map(lambda x: np.zeros(x.shape, x.dtype))
    for t in reversed(range(len(token))):
        d_token, d_state = step_vjp(token[t], before[t], d_output[:, t], d_state)
        for gradients, x in zip(gradient, d_token, strict=True):
            if gradients is not None:
                gradients[:, t] = x
    return gradient, d_state


def step_vjp(token: Tokens, state: Array, d_output: Array, d_state: Array) -> tuple[Tokens, Array]:
    """The gradients of one token and of the state before it."""
    query, key, value, log_decay, beta = token
    decayed = state if log_decay is None else decay_state(state, log_decay)
    error = value if beta is None else value - (key[..., None, :] @ decayed)[..., 0, :]
    write = error if beta is None else beta * error
    after = decayed + key[..., :, None] * write[..., None, :]

    d_query = d_output @ np.swapaxes(after, -1, -2)  # (R1)
    d_state = d_state + np.swapaxes(query, -1, -2) @ d_output  # (R2)
    d_value = (key[..., None, :] @ d_state)[..., 0, :]  # (R3)
    d_key = (d_state @ write[..., None])[..., 0]  # (R4)
    d_beta = d_log_decay = None
    if beta is not None:
        d_beta = np.sum(error * d_value, axis=-1, keepdims=True)  # (R5)
        d_value = beta * d_value  # (R6)
        d_key = d_key - (decayed @ d_value[..., None])[..., 0]  # (R7)
        d_state = d_state - key[..., :, None] * d_value[..., None, :]
    if log_decay is not None:
        d_log_decay = np.sum(decayed * d_state, axis=-1)  # (R8)
        if log_decay.shape[-1] == 1:
            d_log_decay = np.sum(d_log_decay, axis=-1, keepdims=True)
        d_state = decay_state(d_state, log_decay)  # (R9)
    return Tokens(d_query, d_key, d_value, d_log_decay, d_beta), d_state
