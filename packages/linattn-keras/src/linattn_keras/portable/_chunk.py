"""The chunk-parallel form: one core for the four rules, with and without decay and delta.

All chunks are prepared at once, without their states; one serial pass hands the state from chunk
to chunk ("linear" only sums); then all chunks are read at once. Tokens are `[N, B, H, C, ...]`:
N chunks of C.
"""

from typing import Any, NamedTuple

from keras import ops

from linattn_core.chunks import chunk_count
from linattn_keras.portable._decay import _causal, decayed_products
from linattn_keras.portable._describe import sizes, static_size
from linattn_keras.portable._inverse import solve_unit_lower
from linattn_keras.portable._scan import running_sums, scan, total
from linattn_keras.portable._tokens import Tensor, Tokens, append_tokens, transpose


def parallel(tokens: Tokens, state: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """The output `[B, T, H, R, Dv]` and the state after the last token, in chunks of `length`."""
    count = sizes(tokens.key)[1]
    chunk = _prepare(tokens.map(lambda x: _split(x, length)))
    added = transpose(chunk.to_end) @ chunk.value
    if tokens.beta is None and tokens.log_decay is None:
        # "linear": nothing is undone, so the states are sums; no loop.
        summands = ops.concatenate([state[None], added], axis=0)
        states, final_state = running_sums(summands)[:-1], total(summands)
    else:
        final_state, states = scan(_pass_state, state, _transition(chunk, added))
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
    length, group = sizes(query)[-3:-1]

    rows = query if beta is None else ops.concatenate([query, key[..., None, :]], axis=-2)
    products, decays = decayed_products(rows, key, log_decay)
    reads = products[..., :group, :]
    started = query
    if decays is not None:
        started = query * ops.repeat(decays.from_start[..., None, :], group, axis=-2)
    to_end = key if decays is None else key * decays.to_end

    erased = None
    if beta is not None:
        # value - erased @ state is what the delta rule writes: (I + L)^-1 beta (V - (K G) S).
        from_start = key if decays is None else key * decays.from_start
        strict = ops.where(_causal(length, -1), beta * products[..., group, :], 0.0)
        solved = solve_unit_lower(strict, beta * ops.concatenate([value, from_start], axis=-1))
        value, erased = ops.split(solved, [sizes(value)[-1]], axis=-1)
    return _Chunk(started, reads, to_end, value, erased, None if decays is None else decays.whole)


def _written(chunk: _Chunk, state: Tensor) -> Tensor:
    """What the tokens of a chunk that starts from `state` write at their keys `[..., C, Dv]`."""
    return chunk.value if chunk.erased is None else chunk.value - chunk.erased @ state


def _read(chunk: _Chunk, state: Tensor, written: Tensor) -> Tensor:
    """The output `[..., C, R, Dv]` of a chunk that starts from `state`."""
    output = _rows(chunk.started) @ state + _rows(chunk.reads) @ written
    return ops.reshape(output, [*sizes(chunk.started)[:-1], sizes(state)[-1]])


def _transition(chunk: _Chunk, added: Tensor) -> Tensor:
    """What the serial pass needs of a chunk, in one tensor, all that keras.ops.scan can take.

    The state after a chunk is diag(whole) S - (to_end^T erased) S + added. The decay stays out of
    the matrix, so that a chunk of masked tokens, whole = 1 and the rest 0, changes no bit.
    """
    whole = ops.ones_like(added[..., :1])
    if chunk.whole is not None:
        whole = whole * chunk.whole[..., None]
    parts = [added, whole]
    if chunk.erased is not None:
        parts.append(transpose(chunk.to_end) @ chunk.erased)
    return ops.concatenate(parts, axis=-1)


def _pass_state(state: Tensor, transition: Tensor) -> tuple[Tensor, Tensor]:
    """The state after a chunk, and the one before it."""
    width = sizes(state)[-1]
    added, whole = transition[..., :width], transition[..., width : width + 1]
    after = whole * state + added
    if sizes(transition)[-1] > width + 1:
        after = after - transition[..., width + 1 :] @ state
    return after, state


def _split(x: Tensor, length: int) -> Tensor:
    """`[B, T, H, ...]` as `[N, B, H, C, ...]`, padded with tokens that do nothing."""
    batch, count, *rest = sizes(x)
    chunks = _chunks(length, count)
    x = append_tokens(x, chunks * length - count)
    return _swap(ops.reshape(x, [batch, chunks, length, *rest]))


def _chunks(length: int, count: Any) -> Any:
    """The number of chunks. For a T left open there is padding in any case: a program that is
    exported must not depend on whether a size is 0 or 1.
    """
    return count // length + 2 if static_size(count) is None else chunk_count(length, count)


def _join(x: Tensor, count: Any) -> Tensor:
    """`[N, B, H, C, ...]` as `[B, T, H, ...]`, without the padding."""
    x = _swap(x)
    batch, chunks, length, *rest = sizes(x)
    return ops.reshape(x, [batch, chunks * length, *rest])[:, :count]


def _swap(x: Tensor) -> Tensor:
    """`[B, N, C, H, ...]` as `[N, B, H, C, ...]`, and back."""
    return ops.transpose(x, [1, 0, 3, 2, *range(4, len(x.shape))])


def _rows(x: Tensor) -> Tensor:
    """`[..., C, R, D]` as `[..., C * R, D]`."""
    *lead, length, group, width = sizes(x)
    return ops.reshape(x, [*lead, length * group, width])
