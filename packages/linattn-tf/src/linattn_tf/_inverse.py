"""The unit lower-triangular system of the delta rules.

Solved by forward substitution, which is accurate also for nearly parallel keys, where the doubling
product (I - L)(I + L^2)(I + L^4)... loses every digit.
"""

from typing import Any

import tensorflow as tf

from linattn_tf._decay import _causal
from linattn_tf._tokens import Tensor, number


def solve_unit_lower(
    strict: Tensor, inverse: Tensor, right: Tensor, adjoint: bool = False
) -> Tensor:
    """(I + strict)^-1 right, or (I + strict)^-T right.

    Args:
        strict: `[..., C, C]`, of which only what is below the diagonal counts.
        inverse: `invert_unit_lower(strict)`.
        right: `[..., C, D]`.
    """

    @tf.custom_gradient
    def solve(strict: Tensor, right: Tensor) -> Any:
        solved = tf.matmul(inverse, right, transpose_a=adjoint)

        def gradient(upstream):
            # One product for the gradient of `strict`; the derivative of the inverse takes two.
            d_right = solve_unit_lower(strict, inverse, upstream, not adjoint)
            later, earlier = (solved, d_right) if adjoint else (d_right, solved)
            return _below(-tf.matmul(later, earlier, transpose_b=True)), d_right

        return solved, gradient

    return solve(strict, right)


def invert_unit_lower(strict: Tensor) -> Tensor:
    """(I + strict)^-1, for `[..., C, C]`, of which only what is below the diagonal counts."""
    # As what the function below returned, the inverse has derivatives of its own.
    kept = []

    @tf.custom_gradient
    def invert(strict: Tensor) -> Any:
        unit = tf.zeros_like(strict) + tf.eye(strict.shape[-1], dtype=strict.dtype)
        inverse = tf.linalg.triangular_solve(tf.stop_gradient(unit + _below(strict)), unit)

        def gradient(upstream):
            # d(I + L)^-1 = -(I + L)^-1 dL (I + L)^-1
            # Forward mode asks at once, and for nothing but the derivative along `upstream`.
            known = kept[0] if kept else inverse
            left = tf.matmul(known, upstream, transpose_a=True)
            return _below(-tf.matmul(left, known, transpose_b=True))

        return inverse, gradient

    kept.append(invert(strict))
    return kept[0]


def _below(x: Tensor) -> Tensor:
    return tf.where(_causal(x.shape[-1], -1), x, number(0, x.dtype))
