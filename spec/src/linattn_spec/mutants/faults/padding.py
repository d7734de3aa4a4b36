"""Faults in masks and in the boundaries of packed documents."""

import numpy as np

from linattn_spec.arrays import Array
from linattn_spec.mutants.dissected import Dissected
from linattn_spec.mutants.rows import Rows
from linattn_spec.mutants.table import mutant


@mutant
class PaddingDecays(Dissected):
    """A masked token still decays the state."""

    def masked(self, name: str, x: Array, keep: Array) -> Array:
        return x if name == "log_decay" else super().masked(name, x, keep)


@mutant
class MaskByMultiplication(Dissected):
    """Padding is multiplied by 0, so a NaN or an infinity in it survives."""

    operators = Dissected.every_rule

    def masked(self, name: str, x: Array, keep: Array) -> Array:
        return x * keep


@mutant
class MaskSkippedForOneRow(Dissected):
    """The mask is ignored when the batch holds one row."""

    operators = Dissected.every_rule

    def masked(self, name: str, x: Array, keep: Array) -> Array:
        return super().masked(name, x, keep | (len(x) == 1))


@mutant
class BoundaryLeak(Dissected):
    """A segment starts from the state of the one before."""

    operators = Dissected.every_rule

    def starts(self, segment_ids: Array, keep: Array) -> Array:
        return np.zeros(segment_ids.shape, bool)


@mutant
class MaskedBoundaryLeak(Dissected):
    """A segment whose first token is masked starts from the state of the one before."""

    operators = Dissected.every_rule

    def starts(self, segment_ids: Array, keep: Array) -> Array:
        return super().starts(segment_ids, keep) & keep


@mutant
class FirstSegmentStartsFromZeros(Dissected):
    """Packed documents ignore the initial state."""

    operators = Dissected.every_rule

    def starts(self, segment_ids: Array, keep: Array) -> Array:
        starts = super().starts(segment_ids, keep)
        starts[:, :1] |= starts.any(axis=1, keepdims=True)
        return starts


@mutant
class BoundaryGradientLeak(Dissected):
    """The gradient of the state crosses a segment boundary."""

    operators = Dissected.every_rule
    in_gradients = True

    def reverse(self, before: Array, after: Array, t: int, rows: Rows) -> Array:
        starts = np.diff(rows.segment, axis=1, prepend=0)[:, t, None, None, None] > 0
        return np.where(starts, after, before)
