"""The chunk-parallel form: one core for the four rules, with and without decay and delta.

A chunk is prepared without its state, then reads from it and hands it on. "linear" prepares
all chunks at once and sums; the other rules pass the state from chunk to chunk, and prepare each
chunk on the way, again in the backward pass, which so keeps one state per chunk and nothing
else. Tokens are `[N, B, H, C, ...]`: N chunks of C.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from linattn_core.chunks import chunk_count
from linattn_jax._decay import decayed_products
from linattn_jax._describe import static_size
from linattn_jax._inverse import solve_unit_lower
from linattn_jax._precision import matmul
from linattn_jax._scan import scan
from linattn_jax._tokens import Array, Tokens


def parallel(tokens: Tokens, state: Array, length: int) -> tuple[Array, Array]:
    """The output `[B, T, H, R, Dv]` and the state after the last token, in chunks of `length`."""
    count = tokens.key.shape[1]
    chunks = tokens.map(lambda x: _split(x, length))
    if tokens.beta is None and tokens.log_decay is None:
        # "linear": nothing is undone, so the states are sums; no loop.
        chunk = _prepare(chunks)
        sums = jnp.concatenate([state[None], matmul(chunk.to_end.mT, chunk.value)])
        states = jnp.cumsum(sums, axis=0)
        output, final_state = _read(chunk, states[:-1], chunk.value), states[-1]
    else:
        final_state, output = scan(_pass_state, state, chunks)
    return _join(output, count), final_state


class _Chunk(NamedTuple):
    """A chunk of C tokens, R query heads per state head, before its state is known."""

    started: Array  # [..., C, R, Dk]: the queries, decayed from the chunk's start
    reads: Array  # [..., C, R, C]: what each query reads of what each token writes
    to_end: Array  # [..., C, Dk]: the keys, decayed to the chunk's end
    value: Array  # [..., C, Dv]
    erased: Array | None  # [..., C, Dk]: value - erased @ state is written
    whole: Array | None  # [..., K]: the decay over the chunk


def _prepare(tokens: Tokens) -> _Chunk:
    query, key, value, log_decay, beta = tokens
    group = query.shape[-2]

    rows = query if beta is None else jnp.concatenate([query, key[..., None, :]], axis=-2)
    products, decays = decayed_products(rows, key, log_decay)
    reads = products[..., :group, :]
    started = query if decays is None else query * decays.from_start[..., None, :]
    to_end = key if decays is None else key * decays.to_end

    erased = None
    if beta is not None:
        # value - erased @ state is what the delta rule writes: (I + L)^-1 beta (V - (K G) S).
        from_start = key if decays is None else key * decays.from_start
        strict = jnp.tril(beta * products[..., group, :], -1)
        solved = solve_unit_lower(strict, beta * jnp.concatenate([value, from_start], axis=-1))
        value, erased = jnp.split(solved, [value.shape[-1]], axis=-1)
    return _Chunk(started, reads, to_end, value, erased, None if decays is None else decays.whole)


def _written(chunk: _Chunk, state: Array) -> Array:
    """What the tokens of a chunk that starts from `state` write at their keys `[..., C, Dv]`."""
    return chunk.value if chunk.erased is None else chunk.value - matmul(chunk.erased, state)


def _read(chunk: _Chunk, state: Array, written: Array) -> Array:
    """The output `[..., C, R, Dv]` of a chunk that starts from `state`."""
    output = matmul(_rows(chunk.started), state) + matmul(_rows(chunk.reads), written)
    return output.reshape(*chunk.started.shape[:-1], state.shape[-1])


@partial(jax.checkpoint, prevent_cse=False)
def _pass_state(state: Array, tokens: Tokens) -> tuple[Array, Array]:
    """The state after a chunk from the one before it, and the output of the chunk."""
    chunk = _prepare(tokens)
    written = _written(chunk, state)
    kept = state if chunk.whole is None else chunk.whole[..., None] * state
    return kept + matmul(chunk.to_end.mT, written), _read(chunk, state, written)


def _split(x: Array, length: int) -> Array:
    """`[B, T, H, ...]` as `[N, B, H, C, ...]`, padded with tokens that do nothing."""
    batch, count, *rest = x.shape
    chunks = _chunks(length, count)
    padding = [(0, 0)] * x.ndim
    padding[1] = (0, chunks * length - count)
    x = jnp.pad(x, padding).reshape(batch, chunks, length, *rest)
    return jnp.moveaxis(x, (1, 0, 3), (0, 1, 2))


def _chunks(length: int, count: int) -> int:
    """The number of chunks, also of a T left open, which an export takes to be 1 or more."""
    return -(-count // length) if static_size(count) is None else chunk_count(length, count)


def _join(x: Array, count: int) -> Array:
    """`[N, B, H, C, ...]` as `[B, T, H, ...]`, without the padding."""
    x = jnp.moveaxis(x, (0, 1, 2), (1, 0, 3))
    batch, chunks, length, *rest = x.shape
    return x.reshape(batch, chunks * length, *rest)[:, :count]


def _rows(x: Array) -> Array:
    """`[..., C, R, D]` as `[..., C * R, D]`."""
    *lead, length, group, width = x.shape
    return x.reshape(*lead, length * group, width)
