"""The token-by-token form, equations (1)-(4)."""

import jax.numpy as jnp

from linattn_jax._decay import decay_state
from linattn_jax._precision import matmul
from linattn_jax._scan import scan
from linattn_jax._tokens import Array, Tokens


def recurrent(tokens: Tokens, state: Array) -> tuple[Array, Array]:
    """The output `[B, T, H, R, Dv]` and the state after the last token."""
    sequences = tokens.map(lambda x: jnp.moveaxis(x, 1, 0))
    final_state, outputs = scan(_pass_token, state, sequences)
    return jnp.moveaxis(outputs, 0, 1), final_state


def _pass_token(state: Array, token: Tokens) -> tuple[Array, Array]:
    output, state = step(token, state)
    return state, output


def step(token: Tokens, state: Array) -> tuple[Array, Array]:
    """One token, the arrays of `token` without their time axis: the output and the new state."""
    if token.log_decay is not None:
        state = decay_state(state, token.log_decay)
    write = token.value
    if token.beta is not None:
        write = token.beta * (write - matmul(token.key[..., None, :], state)[..., 0, :])
    state = state + token.key[..., :, None] * write[..., None, :]
    return matmul(token.query, state), state
