"""What the checks need to know of a backend's tensor."""

import warnings
from typing import Any

import keras
import numpy as np
from keras import ops

Tensor = Any  # torch.Tensor, jax.Array or tf.Tensor: whichever backend Keras runs on


def describe(x: Any) -> tuple[tuple[int | None, ...], str] | None:
    """The shape and the dtype's name of a backend's tensor, None for anything else."""
    if not ops.is_tensor(x):
        return None
    return tuple(_known(size) for size in x.shape), dtype_name(x)


def static_size(size: Any) -> int | None:
    """A size that the program may branch on; None for one that is left open."""
    return size if isinstance(size, int) else None


def _known(size: Any) -> int | None:
    """A size as an integer, also one that torch.jit.trace records as a tensor."""
    if isinstance(size, int) or not ops.is_tensor(size):
        return static_size(size)
    with warnings.catch_warnings(action="ignore"):  # that the trace will not know of this use
        return int(size)


def dtype_name(x: Tensor) -> str:
    """The name of a tensor's dtype, also of one that Keras does not know."""
    try:
        return keras.backend.standardize_dtype(x.dtype)
    except ValueError:
        return getattr(x.dtype, "name", str(x.dtype))


def as_tensor(name: str, x: Any) -> Any:
    """The argument `name`, a variable or an array as a tensor, in the dtype it has.

    Raises:
        ValueError: its rank is unknown while tracing.
    """
    if isinstance(x, np.generic):
        x = np.asarray(x)  # Keras takes np.float64 for a Python float, of no dtype of its own
    if ops.is_tensor(x) or isinstance(x, (np.ndarray, keras.Variable)):
        try:
            x = ops.convert_to_tensor(x)
        except (TypeError, ValueError):
            return x  # the checks say that it is no tensor
    check_rank(name, x)
    return x


def check_rank(name: str, x: Any) -> None:
    """Raises ValueError for a tensor whose rank is unknown while tracing."""
    if ops.is_tensor(x):
        try:
            len(x.shape)
        except ValueError:
            message = f"{name} must have a known number of axes, got an unknown shape"
            raise ValueError(message) from None


def sizes(x: Tensor) -> list[Any]:
    """The sizes of `x`: integers where they are known while tracing, else the backend's own."""
    known = list(x.shape)
    if any(size is None for size in known):
        return list(ops.shape(x))
    return known[:2] + [_known(size) if ops.is_tensor(size) else size for size in known[2:]]


def check_known(**arguments: Tensor) -> None:
    """Raises ValueError unless every size after the first two, B and T, is known."""
    for name, x in arguments.items():
        shape = [_known(size) for size in x.shape]
        if None in shape[2:]:
            spelt = ", ".join("?" if size is None else str(size) for size in shape)
            raise ValueError(f"{name} must have known sizes but for B and T, got [{spelt}]")
