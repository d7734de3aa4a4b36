"""Derivatives of the definitions by complex steps: exact to rounding, no cancellation.

For an analytic f, imag(f(x + ih)) / h is f'(x) to rounding once h * h underflows. It is an
independent check of the reverse recurrence: it knows only the forward definition.
"""

from collections.abc import Callable, Sequence

import numpy as np

from linattn_spec.arrays import Array, Arrays

STEP = 1e-200


def complex_step_vjp(
    function: Callable[..., Sequence[Array]], inputs: Arrays, cotangents: Sequence[Array]
) -> Arrays:
    """The gradient of the cotangent-weighted sum of `function(**inputs)`, one element at a time.

    Args:
        function: takes arrays by name, returns a flat sequence of arrays; analytic.
        inputs: dict of float64 arrays to differentiate.
        cotangents: one array for each result of `function`.

    Returns:
        A dict of float64 arrays shaped like `inputs`.
    """
    gradient = {}
    for name, x in inputs.items():
        slopes = np.zeros(x.shape)
        for index in np.ndindex(x.shape):
            stepped = x.astype(np.complex128)
            stepped[index] += 1j * STEP
            results = function(**(inputs | {name: stepped}))
            slopes[index] = sum(
                np.sum(c * (np.imag(r) / STEP)) for c, r in zip(cotangents, results, strict=True)
            )
        gradient[name] = slopes
    return gradient
