"""Faults in the recurrence of one token."""

import numpy as np
import numpy.typing as npt

from linattn_spec.arrays import Array
from linattn_spec.mutants.dissected import Dissected, Inputs
from linattn_spec.mutants.recurrence import outer, read
from linattn_spec.mutants.rows import Rows
from linattn_spec.mutants.table import mutant


def rounded(x: Array, dtype: npt.DTypeLike) -> Array:
    return x.astype(dtype).astype(np.float64)


@mutant
class PastIgnored(Dissected):
    """The initial state is read as zeros."""

    operators = Dissected.every_rule

    def enter(self, state: Array) -> Array:
        return np.zeros_like(state)


@mutant
class PastHonouredForOneToken(Dissected):
    """The initial state is used only when T is 1."""

    operators = Dissected.every_rule

    def forward(self, rows: Rows) -> tuple[Array, Array]:
        if rows.q.shape[2] > 1:
            rows.state = np.zeros_like(rows.state)
        return super().forward(rows)


@mutant
class ErrorBeforeDecay(Dissected):
    """The error is taken from the state before it decays."""

    def write(self, k: Array, v: Array, beta: Array, decayed: Array, state: Array) -> Array:
        error: Array = v - read(k, state)
        return beta * error


@mutant
class DecayAfterWrite(Dissected):
    """The decay is applied to what its own token writes."""

    def update(self, rows: Rows, t: int, decayed: Array, write: Array) -> Array:
        return decayed + outer(np.exp(rows.g[:, :, t]) * rows.k[:, :, t], write)


@mutant
class DecayOnValueAxis(Dissected):
    """The decay runs along Dv instead of Dk."""

    def decay(self, state: Array, g: Array) -> Array:
        g = np.broadcast_to(g, state.shape[:3])
        return np.exp(g[..., np.arange(state.shape[3]) % g.shape[2]])[..., None, :] * state


@mutant
class DecayInBaseTwo(Dissected):
    """The log decay is read in base 2."""

    def decay(self, state: Array, g: Array) -> Array:
        return np.exp2(g)[..., None] * state


@mutant
class GateClamped(Dissected):
    """The log decay is clamped at -20."""

    def gate(self, log_decay: Array) -> Array:
        return np.maximum(log_decay, -20)


@mutant
class GateGuarded(Dissected):
    """A guard keeps the log decay below -1e-6, so that nothing is kept in full."""

    def gate(self, log_decay: Array) -> Array:
        return np.minimum(log_decay, -1e-6)


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
class BetaClamped(Dissected):
    """Beta is clamped at 1."""

    def rate(self, beta: Array) -> Array:
        return np.minimum(beta, 1)


@mutant
class GatesOfTheFirstRow(Dissected):
    """The gates of the first row of the batch serve every row."""

    def gate(self, log_decay: Array) -> Array:
        return np.broadcast_to(log_decay[:1], log_decay.shape)

    def rate(self, beta: Array) -> Array:
        return np.broadcast_to(beta[:1], beta.shape)


@mutant
class BetaOnValueOnly(Dissected):
    """Beta scales the value but not what the key reads from the state."""

    def write(self, k: Array, v: Array, beta: Array, decayed: Array, state: Array) -> Array:
        return beta * v - read(k, decayed)


@mutant
class StateInFloat16(Dissected):
    """The state is rounded to float16 after every token."""

    def update(self, rows: Rows, t: int, decayed: Array, write: Array) -> Array:
        return rounded(super().update(rows, t, decayed, write), np.float16)


@mutant
class StateInInputDtype(Dissected):
    """The state is rounded to the dtype of the inputs after every token."""

    def update(self, rows: Rows, t: int, decayed: Array, write: Array) -> Array:
        return rounded(super().update(rows, t, decayed, write), rows.dtype)


@mutant
class ReadBeforeWrite(Dissected):
    """A token reads the state before it writes."""

    operators = Dissected.every_rule

    def reading(self, q: Array, after: Array, decayed: Array) -> Array:
        return read(q, decayed)


@mutant
class ScaleIgnored(Dissected):
    """The default scale replaces any other."""

    def scale(self, scale: float | None, Dk: int) -> float:
        return super().scale(None, Dk)


@mutant
class ZeroScaleIsDefault(Dissected):
    """A scale of 0.0 is taken for a missing one."""

    def scale(self, scale: float | None, Dk: int) -> float:
        return scale or Dk**-0.5
