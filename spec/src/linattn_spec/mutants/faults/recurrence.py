"""Faults in the recurrence of one token."""

import numpy as np

from linattn_spec.arrays import Array
from linattn_spec.mutants.dissected import Dissected, Inputs
from linattn_spec.mutants.recurrence import outer, read
from linattn_spec.mutants.rows import Rows
from linattn_spec.mutants.table import mutant


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

    shows_with = Dissected.decays_in

    def correction(self, rows: Rows, t: int, decayed: Array, state: Array) -> Array:
        return super().correction(rows, t, state, state)


@mutant
class DecayAfterWrite(Dissected):
    """The decay is applied to what its own token writes."""

    shows_with = Dissected.decays_in

    def update(self, rows: Rows, t: int, decayed: Array, write: Array) -> Array:
        return decayed + outer(np.exp(rows.g[:, :, t]) * rows.k[:, :, t], write)


@mutant
class DecayOnValueAxis(Dissected):
    """The decay runs along Dv instead of Dk."""

    shows_with = Dissected.decays_in

    def decay(self, state: Array, g: Array, rows: Rows) -> Array:
        g = np.broadcast_to(g, state.shape[:3])
        return np.exp(g[..., np.arange(state.shape[3]) % g.shape[2]])[..., None, :] * state


@mutant
class DecayInBaseTwo(Dissected):
    """The log decay is read in base 2."""

    shows_with = Dissected.decays_in

    def decay(self, state: Array, g: Array, rows: Rows) -> Array:
        return np.exp2(g)[..., None] * state


@mutant
class GateClamped(Dissected):
    """The log decay is clamped at -20."""

    shows_with = Dissected.decays_in

    def gate(self, log_decay: Array) -> Array:
        return np.maximum(log_decay, -20)


@mutant
class GateGuarded(Dissected):
    """A guard keeps the log decay below -1e-6, so that nothing is kept in full."""

    shows_with = Dissected.decays_in

    def gate(self, log_decay: Array) -> Array:
        return np.minimum(log_decay, -1e-6)


@mutant
class GateOfTheTokenBefore(Dissected):
    """A token decays the state by the gate of the token before it."""

    shows_with = Dissected.decays_in

    def gate(self, log_decay: Array) -> Array:
        return np.concatenate([np.zeros_like(log_decay[:, :1]), log_decay[:, :-1]], axis=1)


@mutant
class BetaClamped(Dissected):
    """Beta is clamped at 1."""

    shows_with = ("beta",)

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

    shows_with = ("beta",)

    def correction(self, rows: Rows, t: int, decayed: Array, state: Array) -> Array:
        written: Array = rows.beta[:, :, t] * rows.v[:, :, t]
        return written - read(rows.k[:, :, t], decayed)


@mutant
class ReadBeforeWrite(Dissected):
    """A token reads the state before it writes."""

    operators = Dissected.every_rule

    def reading(self, rows: Rows, t: int, after: Array, decayed: Array) -> Array:
        return super().reading(rows, t, decayed, decayed)


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


@mutant
class GateThroughLogsigmoid(Dissected):
    """The log decay is taken for a logit and put through logsigmoid."""

    shows_with = Dissected.decays_in

    def gate(self, log_decay: Array) -> Array:
        return -np.logaddexp(0, -log_decay)


@mutant
class MixedDtypesRefused(Dissected):
    """Gates and states in another dtype than the value are refused."""

    raises = (TypeError,)

    def rows(self, given: Inputs, scale: float, chunk_size: int, delta: bool) -> Rows:
        for name in ("log_decay", "beta", "initial_state"):
            if name in given and given[name].dtype != given["value"].dtype:
                raise TypeError(f"{name} must have the dtype of value")
        return super().rows(given, scale, chunk_size, delta)
