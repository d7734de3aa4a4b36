"""The unit lower-triangular system of the delta rules."""

import jax
import jax.numpy as jnp
from jax.lax import dynamic_slice_in_dim, dynamic_update_slice_in_dim, fori_loop

from linattn_jax._precision import matmul
from linattn_jax._tokens import Array

# Blocks of this size are solved row by row; larger ones are merged from two.
BLOCK = 16


@jax.custom_jvp
def solve_unit_lower(strict: Array, right: Array) -> Array:
    """(I + strict)^-1 right, for `[..., C, C]`, read below the diagonal only, and `[..., C, D]`.

    Blocked forward substitution: as accurate as a triangular solve also for nearly parallel
    keys, where the doubling product (I - L)(I + L^2)(I + L^4)... loses every digit.
    """
    return matmul(_inverse(strict), right)


@solve_unit_lower.defjvp
def _solve_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    # No derivative of the inverse, which would be two products of three [C, C] matrices.
    (strict, right), (d_strict, d_right) = primals, tangents
    inverse = _inverse(strict)
    solved = matmul(inverse, right)
    return solved, matmul(inverse, d_right - matmul(jnp.tril(d_strict, -1), solved))


@jax.custom_jvp
def _inverse(strict: Array) -> Array:
    length = strict.shape[-1]
    size = min(BLOCK, length)
    inverse = _inverse_by_rows(_diagonal_blocks(strict, size))
    while size < length:
        # [[A, 0], [O, B]]^-1 = [[A^-1, 0], [-B^-1 O A^-1, B^-1]]
        upper, lower = inverse[..., 0::2, :, :], inverse[..., 1::2, :, :]
        across = _diagonal_blocks(strict, 2 * size)[..., size:, :size]
        inverse = jnp.concatenate(
            [
                jnp.concatenate([upper, jnp.zeros_like(upper)], axis=-1),
                jnp.concatenate([-matmul(matmul(lower, across), upper), lower], axis=-1),
            ],
            axis=-2,
        )
        size *= 2
    return inverse[..., 0, :, :]


@_inverse.defjvp
def _inverse_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    # Differentiating the substitution itself would give the same numbers, step by step.
    (strict,), (tangent,) = primals, tangents
    inverse = _inverse(strict)
    return inverse, -matmul(matmul(inverse, jnp.tril(tangent, -1)), inverse)


def _inverse_by_rows(strict: Array) -> Array:
    # A loop and not 16 copies of its body: half of the time that the whole operator compiles.
    size = strict.shape[-1]
    identity = jnp.broadcast_to(jnp.eye(size, dtype=strict.dtype), strict.shape)

    def solve_row(row: Array, inverse: Array) -> Array:
        left, right = (dynamic_slice_in_dim(x, row, 1, axis=-2) for x in (strict, identity))
        solved = right - matmul(left, inverse)
        return dynamic_update_slice_in_dim(inverse, solved, row, axis=-2)

    return fori_loop(0, size, solve_row, jnp.zeros_like(strict))


def _diagonal_blocks(x: Array, size: int) -> Array:
    """`[..., C, C]` as `[..., C / size, size, size]`."""
    return jnp.stack(
        [x[..., i : i + size, i : i + size] for i in range(0, x.shape[-1], size)], axis=-3
    )
