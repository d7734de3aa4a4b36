"""How far a contender's results are from what is expected, and how far they may be."""

import numpy as np

# Contenders are not held to the accuracy of this repository's packages, only told from wrong ones:
# a missing factor or a dropped term is off by far more than any order of summation.
TOLERANCES = {"float32": 2e-4, "bfloat16": 3e-2}


def errors(results, expected, inputs, normalizes):
    """max |result - expected| / max |expected| by name, infinity for what is missing or shorter.

    With `normalizes` the contender gives queries and keys unit length, which changes nothing but
    their gradients: these lose their part along the vector.
    """
    found = {}
    for name, x in expected.items():
        result = _result(results, name, x.shape)
        if normalizes and name in ("gradient.query", "gradient.key"):
            vector = np.asarray(inputs[name.removeprefix("gradient.")], "float64")
            x = x - vector * (x * vector).sum(axis=-1, keepdims=True)
        found[name] = _error(result, x)
    return found


def verdict(found, dtype):
    """Why the contender is wrong, or None."""
    beyond = {name: error for name, error in found.items() if not error <= TOLERANCES[dtype]}
    return ", ".join(f"{name} is off by {error:.1e}" for name, error in beyond.items()) or None


def _result(results, name, shape):
    """The tokens of a result that `shape` has: the first, or as "last_rows" the last."""
    result = results.get("output" if name == "last_rows" else name)
    if result is None or result.ndim < 2 or result.shape == shape:
        return result
    return result[:, -shape[1] :] if name == "last_rows" else result[:, : shape[1]]


def _error(result, x):
    if result is None or result.shape != x.shape or not np.isfinite(result).all():
        return float("inf")
    return float(np.abs(result - x).max() / np.abs(x).max())
