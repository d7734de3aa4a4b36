"""Feature maps of kernel attention, and the normalisation of keys, on NumPy arrays."""

import numpy as np

from linattn_core._describe import describe
from linattn_core._tokens import Array
from linattn_core.checks import check_epsilon, check_feature_map_input
from linattn_core.dtypes import compute_dtype


def elu_plus_one(x: Array) -> Array:
    """elu(x) + 1: x + 1 where x > 0, exp(x) elsewhere (equation (9)).

    Args:
        x: any shape, any real float dtype.

    Returns:
        The shape and dtype of x; computed in float64 for float64, else in float32, rounded once.
        Written so that neither the value nor the gradient cancels or overflows anywhere.

    Raises:
        TypeError: x is not a floating-point tensor.

    References:
        Katharopoulos et al., Transformers are RNNs, 2020, https://arxiv.org/abs/2006.16236
    """
    check_feature_map_input(describe, x)
    wide = x.astype(compute_dtype(x.dtype.name))
    positive = wide > 0
    return np.where(positive, wide + 1, np.exp(np.where(positive, 0, wide))).astype(x.dtype)


def relu(x: Array, epsilon: float = 1e-6) -> Array:
    """max(x, 0) + epsilon (equation (10)).

    Args:
        x: any shape, any real float dtype.
        epsilon: a number >= 0.

    Returns:
        The shape and dtype of x; computed in float64 for float64, else in float32, rounded once.

    Raises:
        TypeError: x is not a floating-point tensor, or epsilon not a number.
        ValueError: epsilon is negative.
    """
    check_feature_map_input(describe, x)
    check_epsilon(epsilon)
    wide = x.astype(compute_dtype(x.dtype.name))
    mapped: Array = np.where(wide > 0, wide, 0) + wide.dtype.type(epsilon)
    return mapped.astype(x.dtype)


def l2_normalize(x: Array, epsilon: float = 1e-6) -> Array:
    """x / sqrt(sum of x * x over the last axis + epsilon) (equation (12)).

    Args:
        x: `[..., D]`, any real float dtype.
        epsilon: a number >= 0. Above 0, the gradient at x = 0 is finite.

    Returns:
        The shape and dtype of x; computed in float64 for float64, else in float32, rounded once.

    Raises:
        TypeError: x is not a floating-point tensor, or epsilon not a number.
        ValueError: x has no axis, or epsilon is negative.
    """
    check_feature_map_input(describe, x, "[..., D]")
    check_epsilon(epsilon)
    wide = x.astype(compute_dtype(x.dtype.name))
    squares = np.sum(wide * wide, axis=-1, keepdims=True)
    normalized: Array = wide / np.sqrt(squares + wide.dtype.type(epsilon))
    return normalized.astype(x.dtype)
