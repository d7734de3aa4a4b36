"""The choice between the gradients of the two forms."""

from linattn_core._chunk_vjp import parallel_vjp
from linattn_core._recurrent_vjp import recurrent_vjp
from linattn_core._tokens import Array, Tokens
from linattn_core.chunks import chunk_length, is_recurrent


def attend_vjp(
    tokens: Tokens,
    state: Array,
    execution_mode: str,
    chunk_size: int,
    d_output: Array,
    d_state: Array,
) -> tuple[Tokens, Array]:
    """The gradients of the tokens and of the initial state, in the form that `attend` takes."""
    if is_recurrent(execution_mode, tokens.key.shape[1]):
        return recurrent_vjp(tokens, state, d_output, d_state)
    return parallel_vjp(tokens, state, chunk_length(chunk_size), d_output, d_state)
