"""Faults in the length of a call, and in what one call hands to the next."""

import numpy as np

from linattn_spec.arrays import Array
from linattn_spec.mutants.dissected import Dissected, Inputs
from linattn_spec.mutants.rows import Rows
from linattn_spec.mutants.table import mutant


class Truncated(Dissected):
    """Reads the first tokens alone."""

    operators = Dissected.every_rule
    longest = 512

    def reach(self, T: int, chunk: int) -> int:
        """How many of T tokens are read."""
        raise NotImplementedError

    def forward(self, rows: Rows) -> tuple[Array, Array]:
        T = rows.q.shape[2]
        n = self.reach(T, rows.chunk)
        output, state = super().forward(rows.first_tokens(n))
        return np.pad(output, [(0, 0), (0, 0), (0, T - n), (0, 0)]), state


@mutant
class RemainderTokenDropped(Truncated):
    """The last token is lost when T is no multiple of the chunk."""

    def reach(self, T: int, chunk: int) -> int:
        return T - 1 if T % chunk else T


@mutant
class RemainderOfOneDropped(Truncated):
    """A last chunk of one token is lost."""

    def reach(self, T: int, chunk: int) -> int:
        return T - 1 if T > 1 and T % chunk == 1 else T


@mutant
class LastFullChunkDropped(Truncated):
    """When T is a multiple of the chunk, the last chunk is taken for padding."""

    def reach(self, T: int, chunk: int) -> int:
        return T if T % chunk else max(T - chunk, 0)


@mutant
class ChunkRoundedDownLate(Truncated):
    """The chunk is rounded down to a power of two after the chunks were counted."""

    def reach(self, T: int, chunk: int) -> int:
        chunks = -(-T // chunk)
        return min(T, chunks << (chunk.bit_length() - 1))


@mutant
class LengthInSixteenBits(Truncated):
    """The length is kept in 16 bits, in which 65,536 is 0."""

    longest = 100_000

    def reach(self, T: int, chunk: int) -> int:
        return T % 2**16


@mutant
class StateLostAfterLongBlocks(Dissected):
    """Blocks of 128 tokens start from zeros, whatever the chunk."""

    operators = Dissected.every_rule
    longest = 2048

    def carry(self, state: Array, t: int, rows: Rows) -> Array:
        return np.zeros_like(state) if t and t % 128 == 0 else state


@mutant
class StateRescaled(Dissected):
    """Every 1,024 tokens the state is scaled to length 1, against overflow."""

    operators = Dissected.every_rule
    longest = 2048

    def carry(self, state: Array, t: int, rows: Rows) -> Array:
        if t == 0 or t % 1024:
            return state
        scaled: Array = state / np.linalg.norm(state, axis=(2, 3), keepdims=True)
        return scaled


@mutant
class EmptyCallResetsState(Dissected):
    """A call without tokens returns a state of zeros."""

    operators = Dissected.every_rule

    def leave(self, state: Array, rows: Rows) -> Array:
        return state if rows.q.shape[2] else np.zeros_like(state)


@mutant
class EmptyCallFails(Dissected):
    """A size is left to be inferred, which fails where there is no element to infer it from."""

    operators = Dissected.every_rule
    raises = (ValueError,)

    def rows(self, given: Inputs, scale: float, chunk_size: int, delta: bool) -> Rows:
        query = given["query"].reshape(*given["query"].shape[:3], -1)
        return super().rows({**given, "query": query}, scale, chunk_size, delta)


@mutant
class PastIgnoredByLongCalls(Dissected):
    """The initial state is used only when the call fits in one chunk."""

    operators = Dissected.every_rule
    longest = 512

    def forward(self, rows: Rows) -> tuple[Array, Array]:
        if rows.q.shape[2] > rows.chunk:
            rows.state = np.zeros_like(rows.state)
        return super().forward(rows)


@mutant
class StateReturnedTooEarly(Dissected):
    """The state returned is the one before the last token."""

    operators = Dissected.every_rule

    def forward(self, rows: Rows) -> tuple[Array, Array]:
        output, state, tape = self.scan(rows)
        return output, tape[-1][0] if tape else state


@mutant
class KeySumOfTheCallReturned(Dissected):
    """The sum of keys that is returned leaves out the one that was given."""

    operators = ("kernelized_attention",)

    def leave(self, state: Array, rows: Rows) -> Array:
        if rows.normalized:
            state[..., -1] -= rows.state[:, rows.first][..., -1]
        return state
