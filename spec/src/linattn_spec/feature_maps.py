"""The feature maps and l2_normalize, equations (9)-(12) of math/linear_attention.md."""

import numpy as np


def elu_plus_one(x):
    """elu(x) + 1, equation (9). float64, or complex128 for complex steps."""
    positive = x.real > 0
    return np.where(positive, x + 1, np.exp(np.where(positive, 0, x)))


def elu_plus_one_derivative(x):
    """The derivative of equation (9)."""
    return np.where(x > 0, 1.0, np.exp(np.where(x > 0, 0, x)))


def relu(x, epsilon=1e-6):
    """max(x, 0) + epsilon, equation (10)."""
    return np.where(x.real > 0, x, 0) + epsilon


def relu_derivative(x):
    """The derivative of equation (10), 0 at x = 0."""
    return np.where(x > 0, 1.0, 0.0)


def identity(x):
    """x itself, equation (11)."""
    return x


def identity_derivative(x):
    """The derivative of equation (11)."""
    return np.ones_like(x)


def l2_normalize(x, epsilon=1e-6):
    """x / sqrt(sum of squares over the last axis + epsilon), equation (12)."""
    return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + epsilon)


def l2_normalize_vjp(x, cotangent, epsilon=1e-6):
    """The gradient of sum(cotangent * l2_normalize(x)) with respect to x."""
    length = np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + epsilon)
    along = np.sum(cotangent * x, axis=-1, keepdims=True)
    return cotangent / length - x * along / length**3


def feature_map(name, epsilon):
    """The map called `name` and its derivative, as functions of x alone."""
    return {
        "elu_plus_one": (elu_plus_one, elu_plus_one_derivative),
        "relu": (lambda x: relu(x, epsilon), relu_derivative),
        "identity": (identity, identity_derivative),
    }[name]
