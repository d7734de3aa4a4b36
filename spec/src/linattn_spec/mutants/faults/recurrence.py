"""Faults in the recurrence of one token."""

import numpy as np

from linattn_spec.mutants.dissected import Dissected
from linattn_spec.mutants.recurrence import outer, read
from linattn_spec.mutants.table import mutant


def rounded(x, dtype):
    return x.astype(dtype).astype(np.float64)


@mutant
class PastIgnored(Dissected):
    """The initial state is read as zeros."""

    operators = Dissected.every_rule

    def enter(self, state):
        return np.zeros_like(state)


@mutant
class PastHonouredForOneToken(Dissected):
    """The initial state is used only when T is 1."""

    operators = Dissected.every_rule

    def forward(self, rows):
        if rows.q.shape[2] > 1:
            rows.state = np.zeros_like(rows.state)
        return super().forward(rows)


@mutant
class ErrorBeforeDecay(Dissected):
    """The error is taken from the state before it decays."""

    def write(self, k, v, beta, decayed, state):
        return beta * (v - read(k, state))


@mutant
class DecayAfterWrite(Dissected):
    """The decay is applied to what its own token writes."""

    def update(self, rows, t, decayed, write):
        return decayed + outer(np.exp(rows.g[:, :, t]) * rows.k[:, :, t], write)


@mutant
class DecayOnValueAxis(Dissected):
    """The decay runs along Dv instead of Dk."""

    def decay(self, state, g):
        g = np.broadcast_to(g, state.shape[:3])
        return np.exp(g[..., np.arange(state.shape[3]) % g.shape[2]])[..., None, :] * state


@mutant
class DecayInBaseTwo(Dissected):
    """The log decay is read in base 2."""

    def decay(self, state, g):
        return np.exp2(g)[..., None] * state


@mutant
class GateClamped(Dissected):
    """The log decay is clamped at -20."""

    def gate(self, log_decay):
        return np.maximum(log_decay, -20)


@mutant
class GateGuarded(Dissected):
    """A guard keeps the log decay below -1e-6, so that nothing is kept in full."""

    def gate(self, log_decay):
        return np.minimum(log_decay, -1e-6)


@mutant
class GatesAndStateInInputDtype(Dissected):
    """Gates and initial state are rounded to the dtype of the value first."""

    def rows(self, given, scale, chunk_size, delta):
        rounding = {
            name: rounded(x, given["value"].dtype)
            for name, x in given.items()
            if name in ("log_decay", "beta", "initial_state")
        }
        return super().rows({**given, **rounding}, scale, chunk_size, delta)


@mutant
class BetaClamped(Dissected):
    """Beta is clamped at 1."""

    def rate(self, beta):
        return np.minimum(beta, 1)


@mutant
class GatesOfTheFirstRow(Dissected):
    """The gates of the first row of the batch serve every row."""

    def gate(self, log_decay):
        return np.broadcast_to(log_decay[:1], log_decay.shape)

    def rate(self, beta):
        return np.broadcast_to(beta[:1], beta.shape)


@mutant
class BetaOnValueOnly(Dissected):
    """Beta scales the value but not what the key reads from the state."""

    def write(self, k, v, beta, decayed, state):
        return beta * v - read(k, decayed)


@mutant
class StateInFloat16(Dissected):
    """The state is rounded to float16 after every token."""

    def update(self, rows, t, decayed, write):
        return rounded(super().update(rows, t, decayed, write), np.float16)


@mutant
class StateInInputDtype(Dissected):
    """The state is rounded to the dtype of the inputs after every token."""

    def update(self, rows, t, decayed, write):
        return rounded(super().update(rows, t, decayed, write), rows.dtype)


@mutant
class ReadBeforeWrite(Dissected):
    """A token reads the state before it writes."""

    operators = Dissected.every_rule

    def reading(self, q, after, decayed):
        return read(q, decayed)


@mutant
class ScaleIgnored(Dissected):
    """The default scale replaces any other."""

    def scale(self, scale, Dk):
        return Dk**-0.5


@mutant
class ZeroScaleIsDefault(Dissected):
    """A scale of 0.0 is taken for a missing one."""

    def scale(self, scale, Dk):
        return scale or Dk**-0.5
