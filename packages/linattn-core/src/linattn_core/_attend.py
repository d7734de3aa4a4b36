"""The choice between the two forms."""

from linattn_core._chunk import parallel
from linattn_core._recurrent import recurrent
from linattn_core._tokens import Array, Tokens
from linattn_core.chunks import chunk_length, is_recurrent


def attend(
    tokens: Tokens, state: Array, execution_mode: str, chunk_size: int
) -> tuple[Array, Array]:
    """The output `[B, T, H, R, Dv]` and the state after the last token, in the form asked for."""
    if is_recurrent(execution_mode, tokens.key.shape[1]):
        return recurrent(tokens, state)
    return parallel(tokens, state, chunk_length(chunk_size))
