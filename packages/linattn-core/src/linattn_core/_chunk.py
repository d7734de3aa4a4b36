"""The chunk-parallel form: one core for the four rules, with and without decay and delta.

Chunks are prepared without their states, several at once; one serial pass hands the state from
chunk to chunk ("linear" only sums); then they are read at once. That is done for one segment of the
sequence after the other, so that what is computed with stays in a processor's caches. Chunks are
`[N, B, H, C, ...]`: N chunks of C tokens.
"""

from typing import NamedTuple

import numpy as np

from linattn_core._decay import Decays, decayed_products
from linattn_core._inverse import invert_unit_lower
from linattn_core._tokens import Array, Tokens
from linattn_core.chunks import chunk_count

# The arrays of a segment have about this many elements: half a MiB in float32.
SEGMENT = 2**17


def parallel(tokens: Tokens, state: Array, length: int) -> tuple[Array, Array]:
    """The output `[B, T, H, R, Dv]` and the state after the last token, in chunks of `length`."""
    query = tokens.query
    output = np.empty_like(query, shape=(*query.shape[:-1], state.shape[-1]))
    for part in _segments(tokens, length):
        chunk = _prepare(_split_tokens(tokens, part, length))
        passed, state = _pass_states(chunk, state)
        _join(_read(chunk, passed), output[:, part])
    return output, state


class _Chunk(NamedTuple):
    """Chunks of C tokens, R query heads per state head, before their states are known."""

    rows: Array  # the queries, and the keys behind them with delta: [N, B, H, C, R or R + 1, Dk]
    decays: Decays | None
    started: Array  # the queries, decayed from the chunk's start: [N, B, H, C * R, Dk]
    reads: Array  # what each query reads of what each token writes: [N, B, H, C * R, C]
    to_end: Array  # the keys, decayed to the chunk's end: [N, B, H, C, Dk]
    value: Array  # [N, B, H, C, Dv]
    delta: "_Delta | None"


class _Delta(NamedTuple):
    """What only the delta rules have: (I + beta P)^-1 beta (V - (K G) S) is written."""

    erasing: Array  # K G, the keys, decayed from the chunk's start: [N, B, H, C, Dk]
    overlap: Array  # P below the diagonal, anything above: [N, B, H, C, C]
    beta: Array  # [N, B, H, C, 1]


class _Passed(NamedTuple):
    """What the serial pass makes of chunks."""

    states: Array  # before each chunk: [N, B, H, Dk, Dv]
    written: Array  # [N, B, H, C, Dv]
    inverse: Array | None  # (I + beta P)^-1: [N, B, H, C, C]


def _prepare(tokens: Tokens) -> _Chunk:
    query, key, value, log_decay, beta = tokens
    group = query.shape[-2]
    rows = query if beta is None else np.concatenate([query, key[..., None, :]], axis=-2)
    products, decays = decayed_products(rows, key, log_decay)
    started = query if decays is None else query * decays.from_start[..., None, :]
    to_end = key if decays is None else key * decays.to_end
    delta = None
    if beta is not None:
        erasing = key if decays is None else key * decays.from_start
        delta = _Delta(erasing, products[..., group, :], beta)
    reads = _rows(products[..., :group, :])
    return _Chunk(rows, decays, _rows(started), reads, to_end, value, delta)


def _pass_states(chunk: _Chunk, state: Array) -> tuple[_Passed, Array]:
    """What the serial pass makes of chunks, and the state after the last one."""
    to_end = np.swapaxes(chunk.to_end, -1, -2)
    if chunk.delta is None and chunk.decays is None:
        # "linear": nothing is undone, so the states are sums; no loop.
        sums = np.cumsum(np.concatenate([state[None], to_end @ chunk.value]), axis=0)
        return _Passed(sums[:-1], chunk.value, None), sums[-1]
    inverse = None
    if chunk.delta is not None:
        erasing, overlap, beta = chunk.delta
        inverse = invert_unit_lower(beta * overlap)
    states, writes = [], []
    for n, written in enumerate(chunk.value):
        if inverse is not None:
            written = inverse[n] @ (beta[n] * (written - erasing[n] @ state))
        states.append(state)
        writes.append(written)
        kept = state if chunk.decays is None else chunk.decays.whole[n][..., None] * state
        state = kept + to_end[n] @ written
    return _Passed(np.stack(states), np.stack(writes), inverse), state


def _read(chunk: _Chunk, passed: _Passed) -> Array:
    """The output `[N, B, H, C, R, Dv]`."""
    read: Array = chunk.started @ passed.states + chunk.reads @ passed.written
    *lead, length, width = passed.written.shape
    group = chunk.reads.shape[-2] // length
    return read.reshape(*lead, length, group, width)


def _segments(tokens: Tokens, length: int) -> list[slice]:
    """Parts of whole chunks, of tokens."""
    batch, count, heads, group, width = tokens.query.shape
    largest = length * max(length * group, width * group, tokens.value.shape[-1])
    size = length * max(1, SEGMENT // max(1, batch * heads * largest))
    return [slice(start, start + size) for start in range(0, max(1, count), size)]


def _split_tokens(tokens: Tokens, part: slice, length: int) -> Tokens:
    return tokens.map(lambda x: _split(x[:, part], length))


def _split(x: Array, length: int) -> Array:
    """`[B, T, H, ...]` as `[N, B, H, C, ...]`, padded with tokens that do nothing."""
    batch, count = x.shape[:2]
    chunks = chunk_count(length, count)
    padding = [(0, 0), (0, chunks * length - count)] + [(0, 0)] * (x.ndim - 2)
    x = np.pad(x, padding).reshape(batch, chunks, length, *x.shape[2:])
    return np.moveaxis(x, (1, 0, 3), (0, 1, 2))


def _join(x: Array, into: Array) -> None:
    """Writes `[N, B, H, C, ...]` as `[B, T, H, ...]`, without the padding."""
    x = np.moveaxis(x, (0, 1, 2), (1, 0, 3))
    batch, chunks, length, *rest = x.shape
    into[...] = x.reshape(batch, chunks * length, *rest)[:, : into.shape[1]]


def _rows(x: Array) -> Array:
    """`[..., C, R, D]` as `[..., C * R, D]`."""
    *lead, length, group, width = x.shape
    return x.reshape(*lead, length * group, width)
