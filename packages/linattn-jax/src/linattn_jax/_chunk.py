"""The chunk-parallel form: one core for the four rules, with and without decay and delta.

A chunk is prepared without its state, then reads from it and hands it on. "linear" prepares
all chunks at once and sums; the other rules pass the state from chunk to chunk, and prepare each
chunk on the way, again in the backward pass, which so keeps one state per chunk and nothing
else. Tokens are `[N, B, C, H, ...]`, N chunks of C, which is how they lie in memory; a chunk puts
its heads before its tokens, `[..., H, C, ...]`, when it is reached.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from linattn_core.chunks import chunk_count
from linattn_jax._decay import decayed_products, repeat
from linattn_jax._describe import static_size
from linattn_jax._inverse import solve_unit_lower
from linattn_jax._precision import matmul
from linattn_jax._scan import running_sums, scan
from linattn_jax._tokens import Array, Tokens


def parallel(tokens: Tokens, state: Array, length: int) -> tuple[Array, Array]:
    """The output `[B, T, H, R, Dv]` and the state after the last token, in chunks of `length`."""
    count = tokens.key.shape[1]
    chunks = tokens.map(lambda x: _split(x, length))
    if tokens.beta is None and tokens.log_decay is None:
        # "linear": nothing is undone, so the states are sums; no loop.
        chunk = _prepare(_by_head(chunks))
        sums = jnp.concatenate([state[None], matmul(chunk.to_end.mT, chunk.value)])
        states = running_sums(sums)
        output, final_state = _read(chunk, states[:-1], chunk.value), states[-1]
    else:
        final_state, output = scan(_pass_state, state, chunks)
    return _join(output, count), final_state


class _Chunk(NamedTuple):
    """A chunk of C tokens, R query heads per state head, before its state is known."""

    started: Array  # [..., R, C, Dk]: the queries, decayed from the chunk's start
    reads: Array  # [..., R, C, C]: what each query reads of what each token writes
    to_end: Array  # [..., C, Dk]: the keys, decayed to the chunk's end
    value: Array  # [..., C, Dv]
    whole: Array | None  # [..., K]: the decay over the chunk
    delta: "_Delta | None"


class _Delta(NamedTuple):
    """What only the delta rules have."""

    from_start: Array  # [..., C, Dk]: the keys, decayed from the chunk's start
    beta: Array  # [..., C, 1]
    strict: Array  # [..., C, C]: what each token erases of what each earlier one writes


def _prepare(tokens: Tokens) -> _Chunk:
    query, key, value, log_decay, beta = tokens
    group = query.shape[-3]

    rows = [query] if beta is None else [query, key[..., None, :, :]]
    (reads, *own), decays = decayed_products(rows, key, log_decay)
    started = query if decays is None else query * repeat(decays.from_start, group, -3)
    to_end = key if decays is None else key * decays.to_end

    delta = None
    if beta is not None:
        from_start = key if decays is None else key * decays.from_start
        delta = _Delta(from_start, beta, beta * own[0][..., 0, :, :])
    return _Chunk(started, reads, to_end, value, None if decays is None else decays.whole, delta)


def _written(chunk: _Chunk, state: Array) -> Array:
    """What the tokens of a chunk that starts from `state` write at their keys `[..., C, Dv]`."""
    if chunk.delta is None:
        return chunk.value
    # The delta rule writes (I + L)^-1 beta (V - (K G) S).
    from_start, beta, strict = chunk.delta
    return solve_unit_lower(strict, beta * (chunk.value - matmul(from_start, state)))


def _read(chunk: _Chunk, state: Array, written: Array) -> Array:
    """The output `[..., C, H, R, Dv]` of a chunk that starts from `state`."""
    output = matmul(_rows(chunk.started), state) + matmul(_rows(chunk.reads), written)
    return jnp.moveaxis(output.reshape(*chunk.started.shape[:-1], state.shape[-1]), -2, -4)


@partial(jax.checkpoint, prevent_cse=False)
def _pass_state(state: Array, tokens: Tokens) -> tuple[Array, Array]:
    """The state after a chunk from the one before it, and the output of the chunk."""
    chunk = _prepare(_by_head(tokens))
    written = _written(chunk, state)
    kept = state if chunk.whole is None else chunk.whole[..., None] * state
    return kept + matmul(chunk.to_end.mT, written), _read(chunk, state, written)


def _split(x: Array, length: int) -> Array:
    """`[B, T, H, ...]` as `[N, B, C, H, ...]`, padded with tokens that do nothing."""
    batch, count, *rest = x.shape
    chunks = _chunks(length, count)
    padding = [(0, 0)] * x.ndim
    padding[1] = (0, chunks * length - count)
    return jnp.moveaxis(jnp.pad(x, padding).reshape(batch, chunks, length, *rest), 1, 0)


def _chunks(length: int, count: int) -> int:
    """The number of chunks, also of a T left open, which an export takes to be 1 or more."""
    return -(-count // length) if static_size(count) is None else chunk_count(length, count)


def _join(x: Array, count: int) -> Array:
    """`[N, B, C, H, ...]` as `[B, T, H, ...]`, without the padding."""
    x = jnp.moveaxis(x, 0, 1)
    batch, chunks, length, *rest = x.shape
    return x.reshape(batch, chunks * length, *rest)[:, :count]


def _by_head(tokens: Tokens) -> Tokens:
    """`[..., C, H, ...]` as `[..., H, C, ...]`, of the query `[..., H, R, C, Dk]`."""
    others = tokens._replace(query=tokens.key).map(lambda x: jnp.swapaxes(x, -3, -2))
    return others._replace(query=jnp.moveaxis(tokens.query, -4, -2))


def _rows(x: Array) -> Array:
    """`[..., R, C, D]` as `[..., R * C, D]`."""
    *lead, group, length, width = x.shape
    return x.reshape(*lead, group * length, width)
