"""The token-by-token form, equations (1)-(4)."""

from operator import itemgetter

import numpy as np

from linattn_core._decay import decay_state
from linattn_core._tokens import Array, Tokens


def recurrent(tokens: Tokens, state: Array) -> tuple[Array, Array]:
    """The output `[B, T, H, R, Dv]` and the state after the last token."""
    batch, count, heads, group, _ = tokens.query.shape
    output = np.empty((batch, count, heads, group, tokens.value.shape[-1]), state.dtype)
    for t in range(count):
        output[:, t], state = step(tokens.map(itemgetter((slice(None), t))), state)
    return output, state


def step(token: Tokens, state: Array) -> tuple[Array, Array]:
    """One token, the arrays of `token` without their time axis: the output and the new state."""
    if token.log_decay is not None:
        state = decay_state(state, token.log_decay)
    write = token.value
    if token.beta is not None:
        write = token.beta * (write - (token.key[..., None, :] @ state)[..., 0, :])
    state = state + token.key[..., :, None] * write[..., None, :]
    return token.query @ state, state
