"""Faults of low precision in the state and the gates."""

import numpy as np

from linattn_spec.arrays import Array
from linattn_spec.mutants.dissected import Dissected, Inputs
from linattn_spec.mutants.faults.precision import InHalf, rounded
from linattn_spec.mutants.rows import Rows
from linattn_spec.mutants.table import mutant


class StateInHalf(InHalf):
    longest = 2048


@mutant
class GatesAndStateInInputDtype(Dissected):
    """Gates and initial state are rounded to the dtype of the value first."""

    def rows(self, given: Inputs, scale: float, chunk_size: int, delta: bool) -> Rows:
        rounding = {
            name: rounded(x, given["value"].dtype)
            for name, x in given.items()
            if name in ("log_decay", "beta", "initial_state")
        }
        return super().rows({**given, **rounding}, scale, chunk_size, delta)


@mutant
class StateInFloat16(Dissected):
    """The state is rounded to float16 after every token."""

    def update(self, rows: Rows, t: int, decayed: Array, write: Array) -> Array:
        return rounded(super().update(rows, t, decayed, write), np.float16)


@mutant
class StateInInputDtype(StateInHalf):
    """The state is rounded to the dtype of the inputs after every token."""

    def update(self, rows: Rows, t: int, decayed: Array, write: Array) -> Array:
        return rounded(super().update(rows, t, decayed, write), rows.dtype)


@mutant
class StateInInputDtypeBetweenChunks(StateInHalf):
    """The state is stored in the dtype of the inputs at every chunk boundary."""

    operators = Dissected.every_rule

    def carry(self, state: Array, t: int, rows: Rows) -> Array:
        return rounded(state, rows.dtype) if t and t % rows.chunk == 0 else state


@mutant
class StateReturnedInInputDtype(StateInHalf):
    """The state is returned in the dtype of the inputs."""

    operators = Dissected.every_rule

    def leave(self, state: Array, rows: Rows) -> Array:
        return rounded(state, rows.dtype)


@mutant
class StateReadInInputDtype(InHalf):
    """The query reads a copy of the state in the dtype of the inputs."""

    operators = Dissected.every_rule

    def reading(self, rows: Rows, t: int, after: Array, decayed: Array) -> Array:
        return super().reading(rows, t, rounded(after, rows.dtype), decayed)


@mutant
class KeySumInInputDtype(StateInHalf):
    """The sum of keys in the denominator is kept in the dtype of the inputs."""

    operators = ("kernelized_attention",)

    def update(self, rows: Rows, t: int, decayed: Array, write: Array) -> Array:
        after = super().update(rows, t, decayed, write)
        if rows.normalized:
            after[..., -1] = rounded(after[..., -1], rows.dtype)
        return after


@mutant
class Float64InFloat32(Dissected):
    """float64 is computed in float32."""

    operators = Dissected.every_rule
    dtypes = ("float64",)

    def update(self, rows: Rows, t: int, decayed: Array, write: Array) -> Array:
        return rounded(super().update(rows, t, decayed, write), np.float32)
