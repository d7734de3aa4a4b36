"""Faults in which head, axis or row goes where."""

import numpy as np

from linattn_spec.arrays import Array
from linattn_spec.mutants.dissected import Dissected, Inputs, split
from linattn_spec.mutants.rows import Rows
from linattn_spec.mutants.table import mutant


def tiles(count: int, total: int) -> Array:
    """Which of `count` heads each of `total` heads would share if heads were tiled."""
    return np.arange(total) % count


@mutant
class TransposedState(Dissected):
    """The state is laid out [Dv, Dk]."""

    def enter(self, state: Array) -> Array:
        return state.swapaxes(2, 3).reshape(state.shape)

    def leave(self, state: Array, rows: Rows) -> Array:
        B, H, Dk, Dv = state.shape
        return state.reshape(B, H, Dv, Dk).swapaxes(2, 3)


@mutant
class TiledQueryHeads(Dissected):
    """Query and value heads of a group are tiled, not repeated."""

    operators = Dissected.every_rule

    query_sharing = staticmethod(tiles)


@mutant
class TiledKeyHeads(Dissected):
    """Key heads are tiled over the value heads, not repeated."""

    operators = Dissected.every_rule

    key_sharing = staticmethod(tiles)


@mutant
class SharedHeadGradientOverwritten(Dissected):
    """The gradient of a shared head is the last sharer's, not the sum over the sharers."""

    operators = Dissected.every_rule
    in_gradients = True

    def shared(self, x: Array, index: Array, heads: int, rows: Rows) -> Array:
        last = np.zeros((x.shape[0], heads) + x.shape[2:])
        last[:, index] = x
        return last


@mutant
class PackedDecayTransposed(Dissected):
    """A packed vector decay is unpacked as [Dk, H]."""

    shows_with = Dissected.decays_in
    operators = ("onnx_linear_attention",)

    def unpack_decay(self, decay: Array, heads: int) -> Array:
        return split(decay, decay.shape[2] // heads).swapaxes(2, 3)


@mutant
class StatesPerKeyHead(Dissected):
    """Query heads find their state by the ratio of query heads to key heads."""

    operators = Dissected.every_rule

    def state_heads(self, Hq: int, Hk: int, Hv: int) -> Array:
        return np.arange(max(Hq, Hv)) // max(Hq // Hk, 1) % Hv


@mutant
class OutputHeadsOfTheQuery(Dissected):
    """The output has as many heads as the query, also where the value has more."""

    operators = Dissected.every_rule

    def kept(self, x: Array, rows: Rows) -> Array:
        return super().kept(x, rows)[:, np.unique(rows.index["query"], return_index=True)[1]]


@mutant
class SharedBetaReachesOneHead(Dissected):
    """A beta for all heads is used by the first one alone."""

    shows_with = ("beta",)

    def rows(self, given: Inputs, scale: float, chunk_size: int, delta: bool) -> Rows:
        rows = super().rows(given, scale, chunk_size, delta)
        if "beta" in given and given["beta"].shape[2] == 1:
            rows.beta[:, 1:] = 0
        return rows


@mutant
class KeysShareADecay(Dissected):
    """A decay per key is replaced by its mean."""

    shows_with = Dissected.decays_in

    def gate(self, log_decay: Array) -> Array:
        return log_decay if log_decay.ndim == 3 else log_decay.mean(axis=3)
