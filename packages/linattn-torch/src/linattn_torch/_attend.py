"""The choice between the two forms."""

from linattn_core.chunks import chunk_length, is_recurrent
from linattn_torch._chunk_vjp import parallel_with_vjp
from linattn_torch._describe import static_size
from linattn_torch._precision import full_precision
from linattn_torch._recurrent import recurrent
from linattn_torch._tokens import Tensor, Tokens


def attend(
    tokens: Tokens, state: Tensor, execution_mode: str, chunk_size: int
) -> tuple[Tensor, Tensor]:
    """The output `[B, T, H, R, Dv]` and the state after the last token, in the form asked for."""
    with full_precision(state):
        if is_recurrent(execution_mode, static_size(tokens.key.shape[1])):
            return recurrent(tokens, state)
        return parallel_with_vjp(tokens, state, chunk_length(chunk_size))
