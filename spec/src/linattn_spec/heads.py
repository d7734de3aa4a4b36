"""Which query, key and gate belong to which state head: neighbours share (repeat, not tile)."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from linattn_spec.arrays import Array, wide

# What one state head takes: q, k, v, g, beta, state, keep, starts, scale.
Head = tuple[Array, Array, Array, Array, Array, Array, Array, Array, float]


class Heads:
    """The arguments of linear_attention, one state head at a time, with what is not given."""

    def __init__(
        self,
        query: Array,
        key: Array,
        value: Array,
        log_decay: Array | None,
        beta: Array | None,
        initial_state: Array | None,
        mask: Array | None,
        segment_ids: Array | None,
        scale: float | None,
    ) -> None:
        self._query, self._key, self._value = wide(query), wide(key), wide(value)
        B, T, Hq, Dk = self._query.shape
        Hv, Dv = self._value.shape[2:]
        self.output_shape = (B, T, max(Hq, Hv), Dv)
        self.state_shape = (B, Hv, Dk, Dv)
        self._group = max(Hq // Hv, 1)
        self._keep = np.ones((B, T), bool) if mask is None else np.asarray(mask)
        self._starts = np.zeros((B, T), bool)
        if segment_ids is not None:
            ids = np.asarray(segment_ids)
            self._starts[:, 1:] = ids[:, 1:] != ids[:, :-1]
        log_decay = np.zeros((B, T, Hv)) if log_decay is None else wide(log_decay)
        if log_decay.ndim == 3:
            log_decay = log_decay[..., None]
        self._log_decay = np.broadcast_to(log_decay, (B, T, Hv, Dk))
        beta = np.ones((B, T, Hv)) if beta is None else wide(beta)
        self._beta = np.broadcast_to(beta, (B, T, Hv))
        self._state = np.zeros(self.state_shape) if initial_state is None else wide(initial_state)
        self._scale = Dk**-0.5 if scale is None else scale

    def __iter__(self) -> Iterator[tuple[int, int]]:
        B, Hv = self.state_shape[:2]
        return product(range(B), range(Hv))

    def query_rows(self, b: int, h: int) -> tuple[int, slice, slice]:
        """The queries that read state head h: Hq / Hv neighbours, or one for Hv / Hq heads."""
        Hq, Hv = self._query.shape[2], self._value.shape[2]
        first = h * Hq // Hv
        return b, slice(None), slice(first, first + self._group)

    def rows(self, b: int, h: int) -> tuple[int, slice, slice]:
        """The output heads of state head h."""
        return b, slice(None), slice(h * self._group, (h + 1) * self._group)

    def key_head(self, h: int) -> int:
        return int(h * self._key.shape[2] // self._value.shape[2])

    def inputs(self, b: int, h: int) -> Head:
        return (
            self._query[self.query_rows(b, h)],
            self._key[b, :, self.key_head(h)],
            self._value[b, :, h],
            self._log_decay[b, :, h],
            self._beta[b, :, h],
            self._state[b, h],
            self._keep[b],
            self._starts[b],
            self._scale,
        )
