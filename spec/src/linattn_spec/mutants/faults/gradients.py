"""Faults in the reverse pass: which gradient is dropped, and what it is taken from."""

from dataclasses import replace

import numpy as np

from linattn_spec.arrays import Array, Arrays
from linattn_spec.mutants.dissected import Dissected
from linattn_spec.mutants.recurrence import Step
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
    longest = 512

    def reverse(self, before: Array, after: Array, t: int, rows: Rows) -> Array:
        return np.zeros_like(before) if t and t % rows.chunk == 0 else before


@mutant
class BetaGradientFromValueOnly(InGradients):
    """The gradient of beta forgets what the key reads from the state."""

    shows_with = ("beta",)

    def backward(self, rows: Rows, do: Array, ds: Array) -> Gradients:
        d = super().backward(rows, do, ds)
        d_beta = np.sum(rows.v * d.v, axis=3, keepdims=True)
        d.beta = d_beta / np.where(rows.beta == 0, 1, rows.beta)
        return d


@mutant
class BetaGradientWithinChunksOnly(InGradients):
    """The gradient of beta forgets what the key reads from the state that entered the chunk."""

    shows_with = ("beta",)
    longest = 512

    def backward(self, rows: Rows, do: Array, ds: Array) -> Gradients:
        _, _, tape = self.scan(rows)
        d = super().backward(rows, do, ds)
        for t in range(0, len(tape), rows.chunk):
            chunk = slice(t, t + rows.chunk)
            entering, _, _, _ = tape[t]
            since = np.exp(np.cumsum(rows.g[:, :, chunk], axis=2))
            d_write = d.v[:, :, chunk] / np.where(rows.beta == 0, 1, rows.beta)[:, :, chunk]
            forgotten = (rows.k[:, :, chunk] * since) @ entering
            d.beta[:, :, chunk] += np.sum(forgotten * d_write, axis=3, keepdims=True)
        return d


@mutant
class ErrorGradientDropped(InGradients):
    """The gradient of a key forgets that the error is read with it."""

    shows_with = ("beta",)

    def error_gradient(self, d_write: Array, step: Step) -> Array:
        return np.zeros_like(super().error_gradient(d_write, step))


@mutant
class ErrorGradientBeforeDecay(InGradients):
    """The gradient of a key, as it reads the error, is taken from the state before it decays."""

    shows_with = Dissected.decays_in

    def error_gradient(self, d_write: Array, step: Step) -> Array:
        state, _, write, after = step
        return super().error_gradient(d_write, (state, state, write, after))


@mutant
class QueryGradientBeforeWrite(InGradients):
    """The gradient of a query is taken from the state before its own token writes."""

    operators = Dissected.every_rule

    def query_gradient(self, do: Array, step: Step) -> Array:
        state, decayed, write, _ = step
        return super().query_gradient(do, (state, decayed, write, decayed))


@mutant
class QueryGradientUnscaled(InGradients):
    """The gradient of the query leaves out the scale."""

    def backward(self, rows: Rows, do: Array, ds: Array) -> Gradients:
        d = super().backward(rows, do, ds)
        d.q /= rows.scale or 1
        return d


@mutant
class ValueGradientWithoutBeta(InGradients):
    """The gradient of the value leaves out beta."""

    shows_with = ("beta",)

    def backward(self, rows: Rows, do: Array, ds: Array) -> Gradients:
        d = super().backward(rows, do, ds)
        d.v /= np.where(rows.beta == 0, 1, rows.beta)
        return d


@mutant
class RecomputedFromZeros(InGradients):
    """The reverse pass recomputes the states without the initial one."""

    operators = Dissected.every_rule

    def backward(self, rows: Rows, do: Array, ds: Array) -> Gradients:
        return super().backward(replace(rows, state=np.zeros_like(rows.state)), do, ds)


@mutant
class MaskedTokensGetGradients(InGradients):
    """The gradients of masked tokens are not set to 0."""

    shows_with = ("mask",)
    operators = Dissected.every_rule

    def kept(self, x: Array, rows: Rows) -> Array:
        return x
