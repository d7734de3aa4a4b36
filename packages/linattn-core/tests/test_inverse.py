"""The triangular system stays accurate where keys resemble each other."""

import numpy as np
import pytest
from problem import error

from linattn_core._inverse import invert_unit_lower, solve_unit_lower

LENGTH, WIDTH = 64, 8
# The worst of these systems has the condition number 1.4e3: this is an eighth of what that allows
# of 2**-24, and twice what substitution row by row comes to.
TOLERANCE = 1e-5


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def keys(kind):
    rng = np.random.default_rng(0)
    if kind == "repeated":
        return np.tile(unit(rng.normal(size=WIDTH)), (LENGTH, 1))
    if kind == "near-identical":
        return unit(rng.normal(size=WIDTH) + 1e-3 * rng.normal(size=(LENGTH, WIDTH)))
    if kind == "non-negative":
        return unit(rng.uniform(size=(LENGTH, WIDTH)))
    return unit(rng.normal(size=(LENGTH, WIDTH)))


def system(kind, beta):
    """A float32 system, and its exact solution, by substitution in float64."""
    right = np.random.default_rng(1).normal(size=(LENGTH, 5)).astype(np.float32)
    strict = np.tril(beta * keys(kind) @ keys(kind).T, -1).astype(np.float32)
    solution = np.zeros(right.shape)
    for row in range(LENGTH):
        solution[row] = right[row] - strict[row, :row].astype(np.float64) @ solution[:row]
    return strict, right, solution


def doubling(strict, right):
    """(I - L)(I + L^2)(I + L^4)..., which is the inverse too, in exact arithmetic."""
    power, identity = -strict, np.eye(LENGTH, dtype=strict.dtype)
    inverse = identity + power
    for _ in range(LENGTH.bit_length() - 2):
        power = power @ power
        inverse = inverse @ (identity + power)
    return inverse @ right


KINDS = ("repeated", "near-identical", "non-negative", "random")


@pytest.mark.parametrize("beta", [1.0, 1.9])
@pytest.mark.parametrize("kind", KINDS)
def test_float32_solves_to_float32(kind, beta):
    strict, right, solution = system(kind, beta)
    got = solve_unit_lower(strict, right)
    assert got.dtype == np.float32
    assert error(got, solution) < TOLERANCE


@pytest.mark.parametrize("beta", [1.0, 1.9])
@pytest.mark.parametrize("kind", KINDS)
def test_the_transposed_system_too(kind, beta):
    strict, right, _ = system(kind, beta)
    exact = np.linalg.solve(np.eye(LENGTH) + strict.astype(np.float64).T, right)
    assert error(invert_unit_lower(strict).T @ right, exact) < TOLERANCE


@pytest.mark.parametrize("kind", ["repeated", "near-identical", "non-negative"])
def test_a_doubling_product_would_not(kind):
    assert error(doubling(*system(kind, 1.9)[:2]), system(kind, 1.9)[2]) > 1


def test_the_doubling_product_is_the_inverse_for_random_keys():
    strict, right, solution = system("random", 1.0)
    assert error(doubling(strict.astype(np.float64), right), solution) < 1e-6


@pytest.mark.parametrize("length", [1, 2, 8, 16, 32, 64, 256])
def test_every_length_of_a_chunk_is_solved(length):
    rng = np.random.default_rng(length)
    strict = np.tril(rng.normal(size=(2, 3, length, length)) / length, -1)
    right = rng.normal(size=(2, 3, length, 4))
    solved = solve_unit_lower(strict, right)
    np.testing.assert_allclose(solved + strict @ solved, right, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(np.triu(invert_unit_lower(strict), 1), 0)
