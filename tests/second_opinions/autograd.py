"""Calls a function that is written in PyTorch, and asks PyTorch's autograd for its gradients."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from linattn_spec.arrays import Array, Arrays
from second_opinions.sequence import Sequence, as_sequence, results

Call = Callable[[Sequence], tuple[torch.Tensor, torch.Tensor | None]]


def adapter(call: Call, *, shares_keys: bool = False) -> Callable[..., Arrays]:
    """`call` as an adapter (linattn_spec.conformance).

    It gets as many keys, values and gates as there are output heads: heads that are shared are
    repeated for it, and autograd adds up their gradients. With `shares_keys` it gets fewer query
    and key heads than value heads where the problem has the same number of both. A state of None
    is one that it does not return.
    """

    def adapt(
        operator: str,
        inputs: dict[str, Array],
        arguments: dict[str, Any],
        cotangents: Arrays | None = None,
    ) -> Arrays:
        leaves = {n: torch.tensor(x) for n, x in inputs.items()}
        floats = {n: x.requires_grad_() for n, x in leaves.items() if x.is_floating_point()}
        sequence = as_sequence(operator, leaves, arguments)
        Hq, Hk, Hv = (x.shape[2] for x in (sequence.query, sequence.key, sequence.value))
        if not (shares_keys and Hq == Hk < Hv):
            sequence = _with_equal_heads(sequence, max(Hq, Hv))
        output, state = call(sequence)
        if state is not None:
            state = state[:, :: max(Hq // Hv, 1)]
        named = {n: x for n, x in results(operator, output, state).items() if x is not None}
        found = {n: x.detach().numpy() for n, x in named.items()}
        if cotangents is not None:
            total = sum((x * torch.tensor(cotangents[n])).sum() for n, x in named.items())
            gradients = torch.autograd.grad(
                total, list(floats.values()), allow_unused=True, materialize_grads=True
            )
            found |= {f"gradient.{n}": x.numpy() for n, x in zip(floats, gradients, strict=True)}
        return found

    return adapt


def decay_per_head(s: Sequence) -> torch.Tensor:
    """The decays `[B, T, H]`, 0 where the rule has none."""
    return torch.zeros(s.value.shape[:3]) if s.log_decay is None else s.log_decay


def decay_per_key(s: Sequence) -> torch.Tensor:
    """The decays `[B, T, H, Dk]`; one per head is that of each of its keys."""
    decay = decay_per_head(s)
    if decay.ndim == 3:
        decay = decay[..., None].expand(*decay.shape, s.key.shape[-1])
    return decay


def rate(s: Sequence) -> torch.Tensor:
    """beta `[B, T, H]`."""
    return s.beta.expand(s.value.shape[:3])


def _with_equal_heads(s: Sequence, heads: int) -> Sequence:
    def repeated(x: torch.Tensor | None, axis: int) -> torch.Tensor | None:
        return None if x is None else x.repeat_interleave(heads // x.shape[axis], dim=axis)

    names = ("query", "key", "value", "log_decay", "beta")
    tokens = {n: repeated(getattr(s, n), 2) for n in names}
    return replace(s, **tokens, initial_state=repeated(s.initial_state, 1))
