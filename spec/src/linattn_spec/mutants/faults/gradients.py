"""Faults in the reverse pass."""

import numpy as np

from linattn_spec.arrays import Array, Arrays
from linattn_spec.mutants.dissected import Dissected
from linattn_spec.mutants.rows import Gradients, Rows
from linattn_spec.mutants.table import mutant


class InGradients(Dissected):
    in_gradients = True


@mutant
class FinalStateGradientDropped(InGradients):
    """The gradient of the final state is ignored."""

    operators = Dissected.every_rule

    def gradients(
        self,
        rows: Rows,
        given: Arrays,
        d_output: Array,
        d_state: Array | None,
        causal: bool = True,
    ) -> Arrays:
        return super().gradients(rows, given, d_output, None, causal)


@mutant
class InitialStateGradientDropped(InGradients):
    """The initial state gets no gradient."""

    operators = Dissected.every_rule

    def backward(self, rows: Rows, do: Array, ds: Array) -> Gradients:
        d = super().backward(rows, do, ds)
        d.state = np.zeros_like(d.state)
        return d


@mutant
class StateGradientCutBetweenChunks(InGradients):
    """The gradient of the state stops at a chunk boundary."""

    operators = Dissected.every_rule

    def reverse(self, before: Array, after: Array, t: int, rows: Rows) -> Array:
        return np.zeros_like(before) if t and t % rows.chunk == 0 else before


@mutant
class GateGradientCancels(InGradients):
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
class ExpBeforeCausalMask(InGradients):
    """The masked half of a chunk's decays is differentiated too: 0 times infinity in float32."""

    def backward(self, rows: Rows, do: Array, ds: Array) -> Gradients:
        d = super().backward(rows, do, ds)
        for t in range(0, rows.g.shape[2], rows.chunk):
            chunk = slice(t, t + rows.chunk)
            backwards = -rows.g[:, :, chunk].sum(axis=2, keepdims=True, dtype=np.float32)
            d.g[:, :, chunk] += 0 * np.exp(backwards)
        return d


@mutant
class BetaGradientFromValueOnly(InGradients):
    """The gradient of beta forgets what the key reads from the state."""

    def backward(self, rows: Rows, do: Array, ds: Array) -> Gradients:
        d = super().backward(rows, do, ds)
        d_beta = np.sum(rows.v * d.v, axis=3, keepdims=True)
        d.beta = d_beta / np.where(rows.beta == 0, 1, rows.beta)
        return d
