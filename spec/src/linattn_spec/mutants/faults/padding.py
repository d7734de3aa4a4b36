"""Faults in masks and in the boundaries of packed documents."""

import numpy as np

from linattn_spec.arrays import Array
from linattn_spec.mutants.dissected import Dissected, Inputs
from linattn_spec.mutants.rows import Rows
from linattn_spec.mutants.table import mutant


@mutant
class PaddingDecays(Dissected):
    """A masked token still decays the state."""

    shows_with = ("mask",)

    def masked(self, name: str, x: Array, keep: Array) -> Array:
        return x if name == "log_decay" else super().masked(name, x, keep)


@mutant
class MaskByMultiplication(Dissected):
    """Padding is multiplied by 0, so a NaN or an infinity in it survives."""

    shows_with = ("mask",)
    operators = Dissected.every_rule

    def masked(self, name: str, x: Array, keep: Array) -> Array:
        return x * keep


@mutant
class MaskSkippedForOneRow(Dissected):
    """The mask is ignored when the batch holds one row."""

    shows_with = ("mask",)
    operators = Dissected.every_rule

    def masked(self, name: str, x: Array, keep: Array) -> Array:
        return super().masked(name, x, keep | (len(x) == 1))


@mutant
class BoundaryLeak(Dissected):
    """A segment starts from the state of the one before."""

    shows_with = ("segment_ids",)
    operators = Dissected.every_rule

    def starts(self, segment_ids: Array, keep: Array) -> Array:
        return np.zeros(segment_ids.shape, bool)


@mutant
class MaskedBoundaryLeak(Dissected):
    """A segment whose first token is masked starts from the state of the one before."""

    shows_with = ("segment_ids",)
    operators = Dissected.every_rule

    def starts(self, segment_ids: Array, keep: Array) -> Array:
        return super().starts(segment_ids, keep) & keep


@mutant
class FirstSegmentStartsFromZeros(Dissected):
    """Packed documents ignore the initial state."""

    shows_with = ("segment_ids",)
    operators = Dissected.every_rule

    def starts(self, segment_ids: Array, keep: Array) -> Array:
        starts = super().starts(segment_ids, keep)
        starts[:, :1] |= starts.any(axis=1, keepdims=True)
        return starts


@mutant
class BoundaryGradientLeak(Dissected):
    """The gradient of the state crosses a segment boundary."""

    shows_with = ("segment_ids",)
    operators = Dissected.every_rule
    in_gradients = True

    def reverse(self, before: Array, after: Array, t: int, rows: Rows) -> Array:
        starts = np.diff(rows.segment, axis=1, prepend=0)[:, t, None, None, None] > 0
        return np.where(starts, after, before)


@mutant
class MaskedOutputKept(Dissected):
    """A masked token puts out what it reads."""

    shows_with = ("mask",)
    operators = Dissected.every_rule

    def masked(self, name: str, x: Array, keep: Array) -> Array:
        return np.nan_to_num(x) if name == "query" else super().masked(name, x, keep)

    def kept(self, x: Array, rows: Rows) -> Array:
        return x


@mutant
class MaskIsALength(Dissected):
    """The mask is read as the number of tokens before the padding."""

    shows_with = ("mask",)
    operators = Dissected.every_rule

    def rows(self, given: Inputs, scale: float, chunk_size: int, delta: bool) -> Rows:
        if "mask" in given:
            mask = given["mask"]
            length = mask.sum(axis=1, keepdims=True)
            given = {**given, "mask": np.arange(mask.shape[1]) < length}
        return super().rows(given, scale, chunk_size, delta)
