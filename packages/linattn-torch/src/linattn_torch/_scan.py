"""The serial pass: a Python loop, or one loop node where the number of steps is left open."""

from collections.abc import Callable
from typing import Any

import torch

from linattn_torch._tokens import Tensor

# body(state, one step of the sequences) -> (state, result)
Body = Callable[[Tensor, Any], tuple[Tensor, Tensor]]


def scan(body: Body, state: Tensor, sequences: Any) -> tuple[Tensor, Tensor]:
    """Runs `body` over the first axis of a named tuple's tensors; the last state, the results.

    The loop differentiates to any order, under every transform. An exported program needs the
    loop node instead, because a Python loop would fix the number of steps; that node's second
    derivatives are wrong in torch 2.13, which an exported forward pass does not have.
    """
    present = tuple(x for x in sequences if x is not None)

    def step(state: Tensor, given: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        parts = iter(given)
        return body(state, type(sequences)(*(x if x is None else next(parts) for x in sequences)))

    if torch.compiler.is_exporting():
        return _loop_node(step, state, present)
    results = []
    for given in zip(*present, strict=True):
        state, result = step(state, given)
        results.append(result)
    return state, torch.stack(results)


def _loop_node(step: Body, state: Tensor, present: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    from torch._higher_order_ops.scan import scan as loop_node

    def copied(state: Tensor, given: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        state, result = step(state, given)
        return state, result.clone()  # the node takes no result that is its argument

    return loop_node(copied, state, present)
