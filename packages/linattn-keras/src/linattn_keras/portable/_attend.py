"""The choice between the two forms."""

from linattn_core.chunks import chunk_length, is_recurrent
from linattn_keras.portable._chunk import parallel
from linattn_keras.portable._describe import static_size
from linattn_keras.portable._recurrent import recurrent
from linattn_keras.portable._tokens import Tensor, Tokens


def attend(
    tokens: Tokens, state: Tensor, execution_mode: str, chunk_size: int
) -> tuple[Tensor, Tensor]:
    """The output `[B, T, H, R, Dv]` and the state after the last token, in the form asked for."""
    if is_recurrent(execution_mode, static_size(tokens.key.shape[1])):
        return recurrent(tokens, state)
    return parallel(tokens, state, chunk_length(chunk_size))
