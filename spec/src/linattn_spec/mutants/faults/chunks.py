"""Faults of chunk-parallel implementations."""

import numpy as np

from linattn_spec.arrays import Array
from linattn_spec.mutants.chunk_parallel import ChunkParallel
from linattn_spec.mutants.dissected import Dissected
from linattn_spec.mutants.rows import Rows
from linattn_spec.mutants.table import mutant


def lower(between: Array) -> Array:
    """The decays [B, H, C, C, K] from earlier tokens to later ones, 0 for the others."""
    return np.where(np.tri(between.shape[2], dtype=bool)[..., None], between, 0)


@mutant
class StateLostBetweenChunks(Dissected):
    """Every chunk starts from zeros."""

    operators = Dissected.every_rule
    longest = 512

    def carry(self, state: Array, t: int, rows: Rows) -> Array:
        return np.zeros_like(state) if t and t % rows.chunk == 0 else state


@mutant
class DecayTwiceInW(ChunkParallel):
    """W applies the decay since the start of the chunk twice."""

    shows_with = Dissected.decays_in

    def entering(self, k: Array, since: Array) -> Array:
        return k * since * since


@mutant
class FutureTokenIncluded(ChunkParallel):
    """The causal mask inside a chunk lets through the next token."""

    operators = Dissected.every_rule

    def decays(self, g: Array, rows: Rows) -> tuple[Array, Array, Array]:
        between, since, until = super().decays(g, rows)
        return np.maximum(between, np.eye(g.shape[2], k=1)[..., None]), since, until

    def attending(self, scores: Array, rows: Rows) -> Array:
        return np.tril(scores, 1)


@mutant
class DecayAsDifference(ChunkParallel):
    """Decays between tokens are differences of a float32 cumulative sum."""

    shows_with = Dissected.decays_in

    def decays(self, g: Array, rows: Rows) -> tuple[Array, Array, Array]:
        _, since, until = super().decays(g, rows)
        total = np.cumsum(g, axis=2, dtype=np.float32).astype(np.float64)
        return lower(np.exp(total[:, :, :, None] - total[:, :, None])), since, until


@mutant
class DecayAsQuotient(ChunkParallel):
    """Decays between tokens are exp(G_i) exp(-G_j) in float32."""

    shows_with = Dissected.decays_in

    def decays(self, g: Array, rows: Rows) -> tuple[Array, Array, Array]:
        _, since, until = super().decays(g, rows)
        total = np.cumsum(g, axis=2, dtype=np.float32)
        return lower(np.exp(total)[:, :, :, None] * np.exp(-total)[:, :, None]), since, until


@mutant
class NeumannInverse(ChunkParallel):
    """The triangular inverse is the product (I - L)(I + L^2)(I + L^4)... in float32."""

    shows_with = ("beta",)

    def inverse(self, L: Array, rows: Rows) -> Array:
        power = L.astype(np.float32)
        inverse = np.eye(L.shape[-1], dtype=np.float32) - power
        for _ in range(L.shape[-1].bit_length()):
            power = power @ power
            inverse = inverse + inverse @ power
        return inverse.astype(np.float64)
