"""The serial pass: a Python loop, or one loop node where the number of steps is left open."""

from collections.abc import Callable, Sequence

import torch

from linattn_torch._tokens import Tensor

# body(state, one step of each sequence) -> (state, result)
Body = Callable[[Tensor, Sequence[Tensor]], tuple[Tensor, Tensor]]


def scan(body: Body, state: Tensor, sequences: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Runs `body` over the first axis; the last state and the stacked results.

    The loop differentiates to any order, under every transform. An exported program needs the
    loop node instead, because a Python loop would fix the number of steps; that node's second
    derivatives are wrong in torch 2.13, which an exported forward pass does not have.
    """
    if torch.compiler.is_exporting():
        from torch._higher_order_ops.scan import scan as loop_node

        return loop_node(body, state, tuple(sequences))
    results = []
    for step in zip(*sequences, strict=True):
        state, result = body(state, step)
        results.append(result)
    return state, torch.stack(results)
