"""The gradients of the feature maps and of l2_normalize."""

from typing import Any

import numpy as np

from linattn_core._cotangents import check_cotangent
from linattn_core._describe import describe
from linattn_core._tokens import Array
from linattn_core.checks import check_epsilon, check_feature_map_input
from linattn_core.dtypes import compute_dtype


def elu_plus_one_vjp(x: Array, *, output_cotangent: Array | None = None) -> dict[str, Array]:
    """The gradient of sum(output_cotangent * elu_plus_one(x)), equation (9).

    Args:
        x: as in `elu_plus_one`.
        output_cotangent: the shape of x, any real float dtype; None for zeros.

    Returns:
        {"x": the gradient}, in the shape and dtype of x; computed in float64 for float64, else
        in float32, rounded once.

    Raises:
        ValueError, TypeError: as `elu_plus_one`, and for a cotangent of another shape.
    """
    check_feature_map_input(describe, x)
    wide, cotangent = _widen(x, output_cotangent)
    slope = np.where(wide > 0, 1, np.exp(np.where(wide > 0, 0, wide)))
    return {"x": (cotangent * slope).astype(x.dtype)}


def relu_vjp(
    x: Array, epsilon: float = 1e-6, *, output_cotangent: Array | None = None
) -> dict[str, Array]:
    """The gradient of sum(output_cotangent * relu(x, epsilon)), equation (10); 0 at x = 0.

    Args:
        x, epsilon: as in `relu`.
        output_cotangent: the shape of x, any real float dtype; None for zeros.

    Returns:
        {"x": the gradient}, in the shape and dtype of x; computed in float64 for float64, else
        in float32, rounded once.

    Raises:
        ValueError, TypeError: as `relu`, and for a cotangent of another shape.
    """
    check_feature_map_input(describe, x)
    check_epsilon(epsilon)
    wide, cotangent = _widen(x, output_cotangent)
    return {"x": np.where(wide > 0, cotangent, 0).astype(x.dtype)}


def l2_normalize_vjp(
    x: Array, epsilon: float = 1e-6, *, output_cotangent: Array | None = None
) -> dict[str, Array]:
    """The gradient of sum(output_cotangent * l2_normalize(x, epsilon)), equation (12).

    With y the result and n its denominator, (output_cotangent - y * sum(output_cotangent * y)) / n.

    Args:
        x, epsilon: as in `l2_normalize`.
        output_cotangent: the shape of x, any real float dtype; None for zeros.

    Returns:
        {"x": the gradient}, in the shape and dtype of x; computed in float64 for float64, else
        in float32, rounded once. Finite at x = 0 for an epsilon above 0.

    Raises:
        ValueError, TypeError: as `l2_normalize`, and for a cotangent of another shape.
    """
    check_feature_map_input(describe, x, "[..., D]")
    check_epsilon(epsilon)
    wide, cotangent = _widen(x, output_cotangent)
    squares = np.sum(wide * wide, axis=-1, keepdims=True)
    length = np.sqrt(squares + wide.dtype.type(epsilon))
    normalized = wide / length
    along = np.sum(cotangent * normalized, axis=-1, keepdims=True)
    return {"x": ((cotangent - normalized * along) / length).astype(x.dtype)}


def _widen(x: Array, cotangent: Any) -> tuple[Array, Array]:
    """x and the checked cotangent in the dtype to compute in."""
    letters = tuple(f"x.shape[{axis}]" for axis in range(x.ndim))
    check_cotangent(describe, "output_cotangent", cotangent, letters, x.shape)
    wide = x.astype(compute_dtype(x.dtype.name))
    if cotangent is None:
        return wide, np.zeros_like(wide)
    return wide, cotangent.astype(wide.dtype)
