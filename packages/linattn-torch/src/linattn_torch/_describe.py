"""What the checks need to know of a torch tensor."""

from typing import Any

import torch


def describe(x: Any) -> tuple[tuple[int, ...], str] | None:
    """The shape and the dtype's name of a tensor, None for anything else."""
    if not isinstance(x, torch.Tensor):
        return None
    return tuple(x.shape), str(x.dtype).removeprefix("torch.")


def static_size(size: Any) -> int | None:
    """A size that the program may branch on; None for one that an export leaves open."""
    return None if torch.compiler.is_exporting() else size
