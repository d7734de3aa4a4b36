"""The choice between the two forms."""

from functools import partial

import jax

from linattn_core.chunks import chunk_length, is_recurrent
from linattn_jax._chunk import parallel
from linattn_jax._describe import static_size
from linattn_jax._recurrent import recurrent
from linattn_jax._tokens import Array, Tokens


def attend(
    tokens: Tokens, state: Array, execution_mode: str, chunk_size: int
) -> tuple[Array, Array]:
    """The output `[B, T, H, R, Dv]` and the state after the last token, in the form asked for."""
    token_by_token = is_recurrent(execution_mode, static_size(tokens.key.shape[1]))
    return _form(tokens, state, None if token_by_token else chunk_length(chunk_size))


@partial(jax.jit, static_argnames="length")
def _form(tokens: Tokens, state: Array, length: int | None) -> tuple[Array, Array]:
    return recurrent(tokens, state) if length is None else parallel(tokens, state, length)
