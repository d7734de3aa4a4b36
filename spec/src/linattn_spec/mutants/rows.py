"""What the recurrence of recurrence.py takes, and its gradient."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from linattn_spec.arrays import Array, Arrays


@dataclass
class Rows:
    """One call as rows `[B, H, T, ...]`. Masked tokens are 0, a segment starts by g = -inf."""

    q: Array
    k: Array
    v: Array
    g: Array
    beta: Array
    state: Array
    scale: float
    chunk: int
    dtype: npt.DTypeLike
    delta: bool
    keep: Array
    segment: Array
    index: Arrays
    states: int
    normalized: bool = False
    """Whether the last column of v and of the state is the denominator's."""

    @property
    def first(self) -> Array:
        """For each state the first of the rows that share it."""
        return np.unique(self.index["value"], return_index=True)[1]

    def first_tokens(self, n: int) -> "Rows":
        """What the forward pass takes, cut after `n` tokens."""
        q, k, v, g, beta = (x[:, :, :n] for x in (self.q, self.k, self.v, self.g, self.beta))
        return replace(self, q=q, k=k, v=v, g=g, beta=beta)

    def live(self, x: Array) -> Array:
        """`x` `[B, H, T, D]`, 0 at masked tokens."""
        return np.where(self.keep[..., None], x, 0)


@dataclass
class Gradients:
    """The gradient of every row. Those of a key as it writes and as it reads the error add up."""

    q: Array
    k_write: Array
    k_error: Array
    v: Array
    g: Array
    beta: Array
    state: Array
