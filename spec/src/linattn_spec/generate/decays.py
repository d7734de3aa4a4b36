"""The decays that separate a right gate from a nearly right one.

The usual random gates, logsigmoid of a normal, leave most faults below the tolerance.
"""

from collections.abc import Callable

import numpy as np

from linattn_spec.fixtures import Array
from linattn_spec.generate.draw import Draw, Shape

Pattern = Callable[[Draw, Shape], Array]
MINUS_INFINITY = -np.inf


def decay(pattern: str, draw: Draw, shape: Shape) -> Array:
    """Log decays [B, T, Hv] or [B, T, Hv, Dk] of a named pattern."""
    return PATTERNS[pattern](draw, shape)


def _around(value: float) -> Pattern:
    """`value` times 1 to 1.25: heads, tokens and keys that are mixed up show."""
    return lambda draw, shape: np.multiply(value, draw.uniform(1.0, 1.25, shape))


def _constant(value: float) -> Pattern:
    return lambda draw, shape: np.full(shape, value)


def _some(draw: Draw, shape: Shape) -> Array:
    return np.equal(draw.integers(0, 2, shape), 1)


def _resets(draw: Draw, shape: Shape) -> Array:
    return np.where(draw.integers(0, 4, shape) == 0, MINUS_INFINITY, _around(-0.1)(draw, shape))


def _zeros_mixed_in(draw: Draw, shape: Shape) -> Array:
    return np.where(_some(draw, shape), 0.0, draw.uniform(-3.0, 0.0, shape))


def _weak_and_strong(draw: Draw, shape: Shape) -> Array:
    return np.where(_some(draw, shape), _around(-1e-3)(draw, shape), _around(-1e7)(draw, shape))


def _strong_at(token: int) -> Pattern:
    """-90 at one token of every head but the last, whose gradients stay in float32's range."""

    def pattern(draw: Draw, shape: Shape) -> Array:
        g = _around(-0.01)(draw, shape)
        if shape[1]:
            g[:, token, :-1] = -90.0
        return g

    return pattern


PATTERNS = {
    "zero": _constant(0.0),
    "hundredth": _around(-0.01),
    "one": _around(-1.0),
    "five": _constant(-5.0),
    "twenty": _around(-20.0),
    "ten-thousand": _around(-1e4),
    "minus-infinity": _constant(MINUS_INFINITY),
    "resets": _resets,
    "zeros-mixed-in": _zeros_mixed_in,
    "weak-and-strong": _weak_and_strong,
    "strong-first": _strong_at(0),
    "strong-last": _strong_at(-1),
}
