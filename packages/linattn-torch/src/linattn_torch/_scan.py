"""The serial pass: a Python loop, or one loop node where the number of steps is left open."""

from collections.abc import Callable
from typing import Any

import torch

from linattn_torch._tokens import Tensor

# body(state, one step of the sequences) -> (state, results)
Body = Callable[[Tensor, Any], tuple[Tensor, tuple[Tensor, ...]]]


def scan(body: Body, state: Tensor, sequences: Any) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Runs `body` over the first axis of a named tuple's tensors; the last state, the results.

    The loop differentiates to any order, under every transform. An exported program needs the
    loop node instead, because a Python loop would fix the number of steps; that node's second
    derivatives are wrong in torch 2.13, which an exported forward pass does not have.
    """
    present = tuple(x for x in sequences if x is not None)

    def step(state: Tensor, given: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        parts = iter(given)
        return body(state, type(sequences)(*(x if x is None else next(parts) for x in sequences)))

    if torch.compiler.is_exporting():
        return _loop_node(step, state, present)
    steps = []
    for given in zip(*present, strict=True):
        state, results = step(state, given)
        steps.append(results)
    return state, tuple(torch.stack(x) for x in zip(*steps, strict=True))


def _loop_node(
    step: Body, state: Tensor, present: tuple[Tensor, ...]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    from torch._higher_order_ops.scan import scan as loop_node

    def copied(state: Tensor, given: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        state, results = step(state, given)
        # The node takes no result that is its argument.
        return state, tuple(x.clone() for x in results)

    return loop_node(copied, state, present)
