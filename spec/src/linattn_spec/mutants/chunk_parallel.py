"""The forward pass chunk by chunk."""

import numpy as np

from linattn_spec.arrays import Array
from linattn_spec.mutants.dissected import Dissected
from linattn_spec.mutants.recurrence import read
from linattn_spec.mutants.rows import Rows


class ChunkParallel(Dissected):
    """The forward pass chunk by chunk (C1)-(C5); the reverse pass stays token by token."""

    longest = 512

    def forward(self, rows: Rows) -> tuple[Array, Array]:
        state, T = rows.state, rows.q.shape[2]
        outputs = [np.zeros(rows.q.shape[:2] + (0,) + rows.v.shape[3:])]
        for t in range(0, T, rows.chunk):
            chunk = slice(t, min(t + rows.chunk, T))
            q, k, v, g, beta = (x[:, :, chunk] for x in (rows.q, rows.k, rows.v, rows.g, rows.beta))
            between, since, until = self.decays(g, rows)
            write = v
            if rows.delta:
                L = np.tril(beta * self.products(k, k, between), -1)
                T_beta = self.inverse(L, rows) * beta.swapaxes(2, 3)
                write = T_beta @ v - T_beta @ self.entering(k, since) @ state  # (C3)
            A = self.attending(self.products(q, k, between), rows)  # (C2)
            outputs.append(rows.scale * ((q * since) @ state + A @ write))  # (C4)
            state = since[:, :, -1, :, None] * state + (k * until).swapaxes(2, 3) @ write  # (C5)
        return np.concatenate(outputs, axis=2), state

    def decays(self, g: Array, rows: Rows) -> tuple[Array, Array, Array]:
        """exp of the sums of g over (j, i], from the start to i, and from j to the end (C1)."""
        later = np.tri(g.shape[2], k=-1, dtype=bool)[..., None]
        sums = np.cumsum(np.where(later, g[:, :, :, None], 0), axis=2)
        between = np.where(later | np.eye(g.shape[2], dtype=bool)[..., None], sums, -np.inf)
        return (
            self.exp(between, rows),
            self.exp(np.cumsum(g, axis=2), rows),
            self.exp(sums[:, :, -1], rows),
        )

    def exp(self, sums: Array, rows: Rows) -> Array:
        """The decay over some tokens from the sum of their log decays."""
        decay: Array = np.exp(sums)
        return decay

    def products(self, x: Array, y: Array, between: Array) -> Array:
        total: Array = np.sum(x[:, :, :, None] * y[:, :, None] * between, axis=-1)
        return total

    def inverse(self, L: Array, rows: Rows) -> Array:
        """(I + L)^-1 by forward substitution: no row depends on a later one."""
        inverse = np.broadcast_to(np.eye(L.shape[-1]), L.shape).copy()
        for i in range(1, L.shape[-1]):
            inverse[..., i, :] -= read(L[..., i, :i], inverse[..., :i, :])
        return inverse

    def entering(self, k: Array, since: Array) -> Array:
        """The key against which W takes the error of the state that enters the chunk."""
        return k * since

    def attending(self, scores: Array, rows: Rows) -> Array:
        return np.tril(scores)
