"""The chunk-parallel form: one core for the four rules, with and without decay and delta.

All chunks are prepared at once, without their states; one serial pass hands the state from chunk
to chunk ("linear" only sums); then all chunks are read at once. Tokens are `[N, B, H, C, ...]`:
N chunks of C.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from linattn_core.chunks import chunk_count
from linattn_tf._decay import _causal, decayed_products
from linattn_tf._describe import sizes
from linattn_tf._inverse import solve_unit_lower
from linattn_tf._scan import scan
from linattn_tf._tokens import Tensor, Tokens, number


def parallel(tokens: Tokens, state: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """The output `[B, T, H, R, Dv]` and the state after the last token, in chunks of `length`."""
    count = sizes(tokens.key)[1]
    chunk = _prepare(tokens.map(lambda x: _split(x, length)))
    added = tf.matmul(chunk.to_end, chunk.value, transpose_a=True)
    if tokens.beta is None and tokens.log_decay is None:
        # "linear": nothing is undone, so the states are sums; no loop.
        sums = tf.cumsum(tf.concat([state[None], added], axis=0), axis=0)
        states, final_state = sums[:-1], sums[-1]
    else:
        whole = tf.ones_like(added[..., :1, 0]) if chunk.whole is None else chunk.whole
        erase = () if chunk.erased is None else (chunk.to_end, chunk.erased)
        states, final_state = _pass_states(state, added, whole, *erase)
    return _join(_read(chunk, states, _written(chunk, states)), count), final_state


class _Chunk(NamedTuple):
    """A chunk of C tokens, R query heads per state head, before its state is known."""

    started: Tensor  # [..., C, R, Dk]: the queries, decayed from the chunk's start
    reads: Tensor  # [..., C, R, C]: what each query reads of what each token writes
    to_end: Tensor  # [..., C, Dk]: the keys, decayed to the chunk's end
    value: Tensor  # [..., C, Dv]
    erased: Tensor | None  # [..., C, Dk]: value - erased @ state is written
    whole: Tensor | None  # [..., K]: the decay over the chunk


def _prepare(tokens: Tokens) -> _Chunk:
    query, key, value, log_decay, beta = tokens
    length, group = query.shape[-3:-1]

    rows = query if beta is None else tf.concat([query, key[..., None, :]], axis=-2)
    products, decays = decayed_products(rows, key, log_decay)
    reads = products[..., :group, :]
    started = query if decays is None else query * decays.from_start[..., None, :]
    to_end = key if decays is None else key * decays.to_end

    erased = None
    if beta is not None:
        # value - erased @ state is what the delta rule writes: (I + L)^-1 beta (V - (K G) S).
        from_start = key if decays is None else key * decays.from_start
        strict = tf.where(
            _causal(length, -1), beta * products[..., group, :], number(0, beta.dtype)
        )
        solved = solve_unit_lower(strict, beta * tf.concat([value, from_start], axis=-1))
        value, erased = tf.split(solved, [value.shape[-1], key.shape[-1]], axis=-1)
    return _Chunk(started, reads, to_end, value, erased, None if decays is None else decays.whole)


def _written(chunk: _Chunk, state: Tensor) -> Tensor:
    """What the tokens of a chunk that starts from `state` write at their keys `[..., C, Dv]`."""
    return chunk.value if chunk.erased is None else chunk.value - chunk.erased @ state


def _read(chunk: _Chunk, state: Tensor, written: Tensor) -> Tensor:
    """The output `[..., C, R, Dv]` of a chunk that starts from `state`."""
    output = _rows(chunk.started) @ state + _rows(chunk.reads) @ written
    return tf.reshape(output, sizes(chunk.started)[:-1] + [state.shape[-1]])


class _Pass(NamedTuple):
    """What the serial pass needs of a chunk: S = diag(whole) S - to_end^T (erased S) + added."""

    added: Tensor
    whole: Tensor
    to_end: Tensor | None = None
    erased: Tensor | None = None


@tf.custom_gradient
def _pass_states(state: Tensor, added: Tensor, whole: Tensor, *erase: Tensor) -> Any:
    """The state before every chunk `[N, B, H, Dk, Dv]`, and after the last one.

    `erase` is (to_end, erased), or nothing. The gradient of a TensorFlow loop keeps and adds up
    whole sequences at every step; but the adjoint of this recurrence is itself, backwards, with
    the two factors of `erase` exchanged.
    """
    final_state, states = scan(_pass_state, state, _Pass(added, whole, *erase))

    def gradient(d_states, d_final_state):
        adjoint = [_reverse(x) for x in (d_states, whole, *reversed(erase))]
        d_after, d_state = _pass_states(d_final_state, *adjoint)
        d_after = _reverse(d_after)
        d_whole = tf.reduce_sum(states * d_after, axis=-1)
        if whole.shape[-1] == 1:
            d_whole = tf.reduce_sum(d_whole, axis=-1, keepdims=True)
        d_erase = ()
        if erase:
            to_end, erased = erase
            d_erase = (
                -tf.matmul(erased @ states, d_after, transpose_b=True),
                -tf.matmul(to_end @ d_after, states, transpose_b=True),
            )
        return d_state, d_after, d_whole, *d_erase

    return (states, final_state), gradient


def _pass_state(state: Tensor, chunk: _Pass) -> tuple[Tensor, Tensor]:
    """The state after a chunk, and the one before it."""
    after = chunk.whole[..., None] * state + chunk.added
    if chunk.erased is not None:
        after -= tf.matmul(chunk.to_end, chunk.erased @ state, transpose_a=True)
    return after, state


def _reverse(x: Tensor) -> Tensor:
    return tf.reverse(x, [0])


def _split(x: Tensor, length: int) -> Tensor:
    """`[B, T, H, ...]` as `[N, B, H, C, ...]`, padded with tokens that do nothing."""
    batch, count, *rest = sizes(x)
    chunks = _chunks(length, count)
    x = tf.pad(x, [[0, 0], [0, chunks * length - count]] + [[0, 0]] * len(rest))
    return _swap(tf.reshape(x, [batch, chunks, length, *rest]))


def _join(x: Tensor, count: Any) -> Tensor:
    """`[N, B, H, C, ...]` as `[B, T, H, ...]`, without the padding."""
    x = _swap(x)
    batch, chunks, length, *rest = sizes(x)
    return tf.reshape(x, [batch, chunks * length, *rest])[:, :count]


def _chunks(length: int, count: Any) -> Any:
    """`chunk_count`, also of a T left open."""
    if isinstance(count, int):
        return chunk_count(length, count)
    # Of positive numbers: the division of ONNX, to which programs are exported, truncates.
    return tf.maximum(1, (count + length - 1) // length)


def _swap(x: Tensor) -> Tensor:
    """`[B, N, C, H, ...]` as `[N, B, H, C, ...]`, and back."""
    return tf.transpose(x, [1, 0, 3, 2, *range(4, x.shape.rank)])


def _rows(x: Tensor) -> Tensor:
    """`[..., C, R, D]` as `[..., C * R, D]`."""
    *lead, length, group, width = sizes(x)
    return tf.reshape(x, [*lead, length * group, width])
