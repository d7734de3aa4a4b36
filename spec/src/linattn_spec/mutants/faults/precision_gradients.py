"""Faults of low precision in the reverse pass."""

import numpy as np

from linattn_spec.arrays import Array
from linattn_spec.mutants.dissected import Dissected
from linattn_spec.mutants.faults.gradients import InGradients
from linattn_spec.mutants.faults.precision import InHalf, rounded
from linattn_spec.mutants.rows import Rows
from linattn_spec.mutants.table import mutant


@mutant
class StateGradientInInputDtype(InGradients):
    """The gradient of the state is kept in the dtype of the inputs."""

    operators = Dissected.every_rule
    dtypes = InHalf.dtypes

    def reverse(self, before: Array, after: Array, t: int, rows: Rows) -> Array:
        return rounded(before, rows.dtype)


@mutant
class SharedGradientInInputDtype(InGradients):
    """The gradients of the sharers of a head are added in the dtype of the inputs."""

    operators = Dissected.every_rule
    dtypes = InHalf.dtypes

    def shared(self, x: Array, index: Array, heads: int, rows: Rows) -> Array:
        total = np.zeros((x.shape[0], heads) + x.shape[2:])
        for row, head in enumerate(index):
            total[:, head] = rounded(total[:, head] + x[:, row], rows.dtype)
        return total


@mutant
class ReversePassInFloat32(InGradients):
    """The reverse pass of float64 is computed in float32."""

    operators = Dissected.every_rule
    dtypes = ("float64",)

    def reverse(self, before: Array, after: Array, t: int, rows: Rows) -> Array:
        return rounded(before, np.float32)
