"""Faults in the gradient of the log decay."""

import numpy as np

from linattn_spec.arrays import Array
from linattn_spec.mutants.faults.gradients import InGradients
from linattn_spec.mutants.recurrence import Step
from linattn_spec.mutants.rows import Gradients, Rows
from linattn_spec.mutants.table import mutant


class InGateGradients(InGradients):
    shows_with = ("log_decay", "decay")


@mutant
class GateGradientCancels(InGateGradients):
    """The gate gradient is a reverse cumulative sum of q dq - k dk, in float64."""

    def backward(self, rows: Rows, do: Array, ds: Array) -> Gradients:
        _, last, _ = self.scan(rows)
        d = super().backward(rows, do, ds)
        terms = rows.q * d.q - rows.k * d.k_write + rows.k * d.k_error
        if terms.shape[2]:
            terms[:, :, -1] += np.sum(last * ds, axis=3)
        slope = np.cumsum(terms[:, :, ::-1], axis=2)[:, :, ::-1]
        d.g = slope if rows.g.shape[3] > 1 else slope.sum(axis=3, keepdims=True)
        return d


@mutant
class ExpBeforeCausalMask(InGateGradients):
    """The masked half of a chunk's decays is differentiated too: 0 times infinity in float32."""

    longest = 512

    def backward(self, rows: Rows, do: Array, ds: Array) -> Gradients:
        d = super().backward(rows, do, ds)
        for t in range(0, rows.g.shape[2], rows.chunk):
            chunk = slice(t, t + rows.chunk)
            backwards = -rows.g[:, :, chunk].sum(axis=2, keepdims=True, dtype=np.float32)
            d.g[:, :, chunk] += 0 * np.exp(backwards)
        return d


@mutant
class GradientOfTheFactor(InGateGradients):
    """The gate gradient is that of exp(log_decay), not of log_decay."""

    def gate_gradient(self, g: Array, ds: Array, step: Step) -> Array:
        state, _, _, _ = step
        slope: Array = np.sum(state * ds, axis=-1)
        return slope


@mutant
class GateGradientAfterWrite(InGateGradients):
    """The gate gradient is taken from the state that its own token has written to."""

    def gate_gradient(self, g: Array, ds: Array, step: Step) -> Array:
        _, _, _, after = step
        slope: Array = np.sum(after * ds, axis=-1)
        return slope


@mutant
class LastGateGradientDropped(InGateGradients):
    """The last token's gate gets no gradient."""

    def backward(self, rows: Rows, do: Array, ds: Array) -> Gradients:
        d = super().backward(rows, do, ds)
        d.g[:, :, -1:] = 0
        return d


@mutant
class GateGradientDroppedAtChunkStart(InGateGradients):
    """The gate of a later chunk's first token gets no gradient."""

    longest = 512

    def backward(self, rows: Rows, do: Array, ds: Array) -> Gradients:
        d = super().backward(rows, do, ds)
        d.g[:, :, rows.chunk :: rows.chunk] = 0
        return d


@mutant
class KeysShareAGateGradient(InGateGradients):
    """A decay per key gets at every key the sum of the gradients of all keys."""

    def gate_gradient(self, g: Array, ds: Array, step: Step) -> Array:
        slope = super().gate_gradient(g, ds, step)
        if g.shape[-1] > 1:
            slope[:] = slope.sum(axis=-1, keepdims=True)
        return slope


@mutant
class GateGradientNanAtReset(InGateGradients):
    """The gradient of a log decay of minus infinity is 0 times infinity."""

    def gate_gradient(self, g: Array, ds: Array, step: Step) -> Array:
        slope: Array = super().gate_gradient(g, ds, step) + 0 * g
        return slope
