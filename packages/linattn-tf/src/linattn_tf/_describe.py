"""What the checks need to know of a TensorFlow tensor."""

from typing import Any

import numpy as np
import tensorflow as tf


def describe(x: Any) -> tuple[tuple[int | None, ...], str] | None:
    """The shape and the dtype's name of a tensor, None for anything else."""
    if not isinstance(x, tf.Tensor):
        return None
    return tuple(x.shape), x.dtype.name


def as_tensors(**arguments: Any) -> tuple[Any, ...]:
    """The arguments, those that TensorFlow takes for a tensor as one, in the dtype they have.

    Raises:
        ValueError: the rank of one is unknown while tracing.
    """
    return tuple(_as_tensor(name, x) for name, x in arguments.items())


def _as_tensor(name: str, x: Any) -> Any:
    arrays = (np.ndarray, np.generic, tf.Variable)
    if isinstance(x, arrays) or hasattr(x, "__tf_tensor__") or _is_nested(x):
        try:
            x = tf.convert_to_tensor(x)
        except (TypeError, ValueError):
            return x  # the checks say that it is no tensor
    if isinstance(x, tf.Tensor) and x.shape.rank is None:
        raise ValueError(f"{name} must have a known number of axes, got an unknown shape")
    return x


def _is_nested(x: Any) -> bool:
    """Whether `x` is a list of lists of ... Python numbers; one of tensors is a structure."""
    if not isinstance(x, list):
        return False
    while isinstance(x, list) and x:
        x = x[0]
    return isinstance(x, (list, bool, int, float, complex))


def sizes(x: tf.Tensor) -> list[Any]:
    """The sizes of `x`: integers where they are known while tracing, else scalar tensors."""
    if x.shape.is_fully_defined():
        return list(x.shape)
    traced = tf.unstack(tf.shape(x))
    return [size if known is None else known for known, size in zip(x.shape, traced, strict=True)]


def check_known(**arguments: tf.Tensor) -> None:
    """Raises ValueError unless every size after the first two, B and T, is known."""
    for name, x in arguments.items():
        if None in tuple(x.shape[2:]):
            shape = ", ".join("?" if size is None else str(size) for size in x.shape)
            raise ValueError(f"{name} must have known sizes but for B and T, got [{shape}]")
