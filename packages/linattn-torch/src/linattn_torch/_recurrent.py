"""The token-by-token form, equations (1)-(4)."""

import torch

from linattn_torch._decay import decay_state
from linattn_torch._scan import scan
from linattn_torch._tokens import Tensor, Tokens


def recurrent(tokens: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
    """The output `[B, T, H, R, Dv]` and the state after the last token."""
    final_state, (outputs,) = scan(_pass_token, state, tokens.map(lambda x: x.movedim(1, 0)))
    return outputs.movedim(0, 1), final_state


def _pass_token(state: Tensor, token: Tokens) -> tuple[Tensor, tuple[Tensor]]:
    output, state = step(token, state)
    return state, (output,)


def step(token: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
    """One token, the tensors of `token` without their time axis: the output and the new state."""
    if token.log_decay is not None:
        state = decay_state(state, token.log_decay)
    write = token.value
    if token.beta is not None:
        write = token.beta * (write - (token.key[..., None, :] @ state)[..., 0, :])
    state = torch.addcmul(state, token.key[..., :, None], write[..., None, :])
    return token.query @ state, state
