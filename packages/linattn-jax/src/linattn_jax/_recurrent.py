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
    """One token, the arrays of `token` without their time axis: the output and the new state.

    The state is what is large. It is read for the query and the key in one product, before the
    token, and then read once more and written; the query reads the token's write by itself.
    """
    query, key, value, log_decay, beta = token
    rows = query if beta is None else jnp.concatenate([query, key[..., None, :]], axis=-2)
    decayed = rows if log_decay is None else rows * jnp.exp(log_decay)[..., None, :]
    read = matmul(decayed, state)
    group = query.shape[-2]
    write = value if beta is None else beta * (value - read[..., group, :])
    kept = state if log_decay is None else decay_state(state, log_decay)
    state = kept + key[..., :, None] * write[..., None, :]
    weights = jnp.sum(query * key[..., None, :], axis=-1, keepdims=True)
    return read[..., :group, :] + weights * write[..., None, :], state
