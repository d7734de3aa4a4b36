"""Faults in which head, axis or row goes where."""

import numpy as np

from linattn_spec.arrays import Array
from linattn_spec.mutants.dissected import Dissected, split
from linattn_spec.mutants.table import mutant


def tiles(count: int, total: int) -> Array:
    """Which of `count` heads each of `total` heads would share if heads were tiled."""
    return np.arange(total) % count


@mutant
class TransposedState(Dissected):
    """The state is laid out [Dv, Dk]."""

    def enter(self, state: Array) -> Array:
        return state.swapaxes(2, 3).reshape(state.shape)

    def leave(self, state: Array) -> Array:
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

    def shared(self, x: Array, index: Array, heads: int) -> Array:
        last = np.zeros((x.shape[0], heads) + x.shape[2:])
        last[:, index] = x
        return last


@mutant
class PackedDecayTransposed(Dissected):
    """A packed vector decay is unpacked as [Dk, H]."""

    operators = ("onnx_linear_attention",)

    def unpack_decay(self, decay: Array, heads: int) -> Array:
        return split(decay, decay.shape[2] // heads).swapaxes(2, 3)
