"""The feature maps and l2_normalize, equations (9)-(12) of math/linear_attention.md."""

from collections.abc import Callable

import numpy as np

from linattn_spec.arrays import Array

Map = Callable[[Array], Array]


def elu_plus_one(x: Array) -> Array:
    """elu(x) + 1, equation (9). float64, or complex128 for complex steps."""
    positive = x.real > 0
    return np.where(positive, x + 1, np.exp(np.where(positive, 0, x)))


def elu_plus_one_derivative(x: Array) -> Array:
    """The derivative of equation (9)."""
    return np.where(x > 0, 1.0, np.exp(np.where(x > 0, 0, x)))


def relu(x: Array, epsilon: float = 1e-6) -> Array:
    """max(x, 0) + epsilon, equation (10)."""
    return np.where(x.real > 0, x, 0) + epsilon


def relu_derivative(x: Array) -> Array:
    """The derivative of equation (10), 0 at x = 0."""
    return np.where(x > 0, 1.0, 0.0)


def identity(x: Array) -> Array:
    """x itself, equation (11)."""
    return x


def identity_derivative(x: Array) -> Array:
    """The derivative of equation (11)."""
    return np.ones_like(x)


def l2_normalize(x: Array, epsilon: float = 1e-6) -> Array:
    """x / sqrt(sum of squares over the last axis + epsilon), equation (12)."""
    return x / _length(x, epsilon)


def l2_normalize_vjp(x: Array, cotangent: Array, epsilon: float = 1e-6) -> Array:
    """The gradient of sum(cotangent * l2_normalize(x)) with respect to x."""
    length = _length(x, epsilon)
    along = np.sum(cotangent * x, axis=-1, keepdims=True)
    gradient: Array = cotangent / length - x * along / length**3
    return gradient


def _length(x: Array, epsilon: float) -> Array:
    length: Array = np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + epsilon)
    return length


def feature_map(name: str, epsilon: float) -> tuple[Map, Map]:
    """The map called `name` and its derivative, as functions of x alone."""
    maps: dict[str, tuple[Map, Map]] = {
        "elu_plus_one": (elu_plus_one, elu_plus_one_derivative),
        "relu": (lambda x: relu(x, epsilon), relu_derivative),
        "identity": (identity, identity_derivative),
    }
    return maps[name]
