"""What counts as a tensor: the active backend's own, NumPy arrays, variables, KerasTensors."""

from typing import Any

import keras

from linattn_keras.portable._describe import as_tensor
from linattn_keras.portable._describe import describe as describe_tensor


def as_tensors(name: str, x: Any) -> Any:
    """The argument `name`, or a tuple or list of such, with arrays and variables as tensors.

    Raises:
        ValueError: the rank of a tensor is unknown while tracing.
    """
    if isinstance(x, (tuple, list)):
        return (tuple if isinstance(x, tuple) else list)(as_tensors(name, part) for part in x)
    return as_tensor(name, x)


def are_sizes_traced(x: Any) -> bool:
    """Whether a tensor in `x` has tensors for sizes, as while torch.jit.trace records."""
    return any(
        keras.ops.is_tensor(size)
        for tensor in keras.tree.flatten(x)
        if keras.ops.is_tensor(tensor)
        for size in tensor.shape
    )


def is_symbolic(x: Any) -> bool:
    """Whether a KerasTensor is in `x`, so that a Functional model is being built."""
    return any(map(keras.backend.is_keras_tensor, keras.tree.flatten(x)))


def describe(x: Any) -> tuple[tuple[int | None, ...], str] | None:
    """The shape and the dtype's name of a tensor, None for anything else."""
    if keras.backend.is_keras_tensor(x):
        return tuple(x.shape), keras.backend.standardize_dtype(x.dtype)
    return describe_tensor(x if keras.ops.is_tensor(x) else as_tensor("a tensor", x))
