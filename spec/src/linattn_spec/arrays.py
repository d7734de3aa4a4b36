"""The type of an array, whose axes the docstrings name, and the dtype of the definitions."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = dict[str, Array]


def wide(x: npt.ArrayLike) -> Array:
    """`x` as float64, or unchanged when it is complex128 already."""
    x = np.asarray(x)
    return x if x.dtype == np.complex128 else x.astype(np.float64)
