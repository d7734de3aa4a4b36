"""The chunk-parallel form: one core for the four rules, with and without decay and delta.

Tokens are cut into chunks of C, and chunks are gathered in segments that a processor's cache holds.
The chunks of a segment are prepared at once, without their states; then the state is handed from
chunk to chunk, and from segment to segment. "linear" only sums: one segment, and no loop. Inside a
segment tensors are `[N, B, H, ..., C, ...]`: N chunks of C.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from linattn_core.chunks import chunk_count
from linattn_tf._decay import _rows, decayed_products
from linattn_tf._describe import sizes
from linattn_tf._inverse import invert_unit_lower, solve_unit_lower
from linattn_tf._scan import running_sums
from linattn_tf._segments import first, pass_segments
from linattn_tf._tokens import Tensor, Tokens

# Chunks of all heads together that a segment holds: more of them leave the cache, and fewer spend
# their time on starting operations.
TOGETHER = 32
# Chunks of one head that a segment holds: its states are passed on without a loop.
LONGEST_SEGMENT = 8


def parallel(tokens: Tokens, state: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """The output `[B, T, H, R, Dv]` and the state after the last token, in chunks of `length`."""
    if tokens.beta is None and tokens.log_decay is None:
        return _sum_chunks(tokens, state, length)

    def body(tokens: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
        return _pass_chunks(tokens, state, length)

    return pass_segments(body, tokens, state, length * _segment(tokens.key, length))


class _Chunk(NamedTuple):
    """A chunk of C tokens, R query heads per state head, before its state is known."""

    started: Tensor  # [..., R, C, Dk]: the queries, decayed from the chunk's start
    reads: Tensor  # [..., R, C, C]: what each query reads of what each token writes
    step: "_Step"


class _Step(NamedTuple):
    """What the serial pass needs of a chunk."""

    to_end: Tensor  # [..., C, Dk]: the keys, decayed to the chunk's end
    value: Tensor  # [..., C, Dv], times beta with delta
    whole: Tensor | None  # [..., K]: the decay over the chunk
    # With delta (I + strict)^-1 (value - erasing @ state) is written.
    erasing: Tensor | None = None  # [..., C, Dk]: beta times the keys, decayed from the start
    strict: Tensor | None = None  # [..., C, C]
    inverse: Tensor | None = None  # [..., C, C]


def _sum_chunks(tokens: Tokens, state: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Nothing is undone, so the states are sums."""
    chunk = _prepare(tokens.map(lambda x: _split(x, length)))
    added = tf.matmul(chunk.step.to_end, chunk.step.value, transpose_a=True)
    sums = running_sums(tf.concat([state[None], added], axis=0))
    output = _read(chunk, sums[:-1], chunk.step.value)
    return _join(output, sizes(tokens.key)[1]), sums[-1]


def _pass_chunks(tokens: Tokens, state: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Only the state is serial."""
    chunk = _prepare(tokens.map(lambda x: _split(x, length)))
    states, written = [], []
    for step in _each(chunk.step):
        states.append(state)
        state, step_written = _pass_state(state, step)
        written.append(step_written)
    output = _read(chunk, tf.stack(states), tf.stack(written))
    return _join(output, sizes(tokens.key)[1]), state


def _prepare(tokens: Tokens) -> _Chunk:
    query, key, value, log_decay, beta = tokens
    rows = [query]
    if beta is not None:
        value, erasing = beta * value, beta * key
        rows.append(tf.expand_dims(erasing, -3))
    (reads, *strict), decays = decayed_products(rows, key, log_decay)
    started, to_end, whole = query, key, None
    if decays is not None:
        started = query * tf.expand_dims(decays.from_start, -3)
        to_end, whole = key * decays.to_end, decays.whole
    if beta is None:
        return _Chunk(started, reads, _Step(to_end, value, whole))
    if decays is not None:
        erasing = erasing * decays.from_start
    strict = tf.squeeze(strict[0], axis=-3)
    step = _Step(to_end, value, whole, erasing, strict, invert_unit_lower(strict))
    return _Chunk(started, reads, step)


def _pass_state(state: Tensor, step: _Step) -> tuple[Tensor, Tensor]:
    """The state after a chunk, and what its tokens write at their keys `[..., C, Dv]`."""
    written = step.value
    if step.erasing is not None:
        right = step.value - step.erasing @ state
        written = solve_unit_lower(step.strict, step.inverse, right)
    if step.whole is not None:
        state = tf.expand_dims(step.whole, -1) * state
    return state + tf.matmul(step.to_end, written, transpose_a=True), written


def _read(chunk: _Chunk, state: Tensor, written: Tensor) -> Tensor:
    """The output `[..., R, C, Dv]` of a chunk that starts from `state`."""
    output = _rows(chunk.started) @ state + _rows(chunk.reads) @ written
    return tf.reshape(output, sizes(chunk.started)[:-1] + [state.shape[-1]])


def _each(steps: _Step) -> list[_Step]:
    count = steps.value.shape[0]
    parts = ([None] * count if x is None else tf.unstack(x, num=count) for x in steps)
    return [_Step(*part) for part in zip(*parts, strict=True)]


def _segment(key: Tensor, length: int) -> int:
    """How many chunks are worked on together."""
    batch, count, heads, _ = key.shape
    chunks = min(LONGEST_SEGMENT, max(1, TOGETHER // max(1, heads * (batch or 1))))
    return chunks if count is None else min(chunks, chunk_count(length, count))


def _split(x: Tensor, length: int) -> Tensor:
    """`[B, T, H, ..., D]` as `[N, B, H, ..., C, D]`, padded with tokens that do nothing."""
    batch, count, *rest = sizes(x)
    chunks = _chunks(length, count)
    if x.shape[1] is None or count != chunks * length:
        x = tf.pad(x, [[0, 0], [0, chunks * length - count]] + [[0, 0]] * len(rest))
    x = tf.reshape(x, [batch, chunks, length, *rest])
    last = x.shape.rank - 1
    return tf.transpose(x, [1, 0, *range(3, last), 2, last])


def _join(x: Tensor, count: Any) -> Tensor:
    """`[N, B, H, ..., C, D]` as `[B, T, H, ..., D]`, without the padding."""
    last = x.shape.rank - 1
    x = tf.transpose(x, [1, 0, last - 1, *range(2, last - 1), last])
    batch, chunks, length, *rest = sizes(x)
    return first(tf.reshape(x, [batch, chunks * length, *rest]), count)


def _chunks(length: int, count: Any) -> Any:
    """`chunk_count`, also of a T left open."""
    if isinstance(count, int):
        return chunk_count(length, count)
    # Of positive numbers: the division of ONNX, to which programs are exported, truncates.
    return tf.maximum(1, (count + length - 1) // length)
