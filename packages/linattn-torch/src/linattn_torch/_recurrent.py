"""The token-by-token form, equations (1)-(4)."""

import torch

from linattn_torch._scan import scan
from linattn_torch._tokens import Tensor, Tokens


def recurrent(tokens: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
    """The output `[B, T, H, R, Dv]` and the state after the last token."""
    sequences = tokens.map(lambda x: x.movedim(1, 0))
    present = [x for x in sequences if x is not None]

    def body(state, steps):
        steps = iter(steps)
        output, state = step(Tokens(*(x if x is None else next(steps) for x in sequences)), state)
        return state, output

    final_state, outputs = scan(body, state, present)
    return outputs.movedim(0, 1), final_state


def step(token: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
    """One token, the tensors of `token` without their time axis: the output and the new state."""
    if token.log_decay is not None:
        state = torch.exp(token.log_decay)[..., None] * state
    write = token.value
    if token.beta is not None:
        write = token.beta * (write - (token.key[..., None, :] @ state)[..., 0, :])
    state = state + token.key[..., :, None] * write[..., None, :]
    return token.query @ state, state
