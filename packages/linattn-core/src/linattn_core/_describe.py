"""What the checks need to know of a NumPy array."""

from typing import Any

import numpy as np

from linattn_core._arguments import Shape


def describe(x: Any) -> tuple[Shape, str] | None:
    """The shape and the dtype's name of an array, None for anything else."""
    if not isinstance(x, (np.ndarray, np.generic)):
        return None
    return x.shape, x.dtype.name
