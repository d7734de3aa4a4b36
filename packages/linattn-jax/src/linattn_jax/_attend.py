"""The choice between the two forms."""

from functools import partial

import jax

from linattn_core.chunks import chunk_length, is_recurrent
from linattn_jax._chunk import parallel
from linattn_jax._describe import static_size
from linattn_jax._recurrent import recurrent
from linattn_jax._tokens import Array, Tokens


@partial(jax.jit, static_argnames=("execution_mode", "chunk_size"))
def attend(
    tokens: Tokens, state: Array, execution_mode: str, chunk_size: int
) -> tuple[Array, Array]:
    """The output `[B, T, H, R, Dv]` and the state after the last token, in the form asked for."""
    if is_recurrent(execution_mode, static_size(tokens.key.shape[1])):
        return recurrent(tokens, state)
    return parallel(tokens, state, chunk_length(chunk_size))
