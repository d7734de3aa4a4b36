"""The gradients of the chunk-parallel form, from what its serial pass made.

Kept are, of each chunk, its state, what it wrote and its inverse. Going backwards, a segment is
prepared again, one serial pass hands the gradient of the state from chunk to chunk, and before and
after it all chunks are worked on at once. The products of two tokens get their gradient without a
product of three `[C, C]` matrices, because what was written is known: -(d_value written') below the
diagonal.
"""

from typing import NamedTuple

import numpy as np

from linattn_core._chunk import (
    _Chunk,
    _join,
    _pass_states,
    _Passed,
    _prepare,
    _rows,
    _segments,
    _split,
    _split_tokens,
)
from linattn_core._decay import Decays
from linattn_core._decay_vjp import decayed_products_vjp
from linattn_core._tokens import Array, Tokens


def parallel_vjp(
    tokens: Tokens, state: Array, length: int, d_output: Array, d_state: Array
) -> tuple[Tokens, Array]:
    """The gradients of the tokens and of the initial state, shaped like them.

    Args:
        tokens, state, length: the arguments of `parallel`.
        d_output: `[B, T, H, R, Dv]`, of its output.
        d_state: `[B, H, Dk, Dv]`, of its final state.
    """
    parts = _segments(tokens, length)
    kept = []
    for part in parts:
        passed, state = _pass_states(_prepare(_split_tokens(tokens, part, length)), state)
        kept.append(passed)
    gradients = tokens.map(np.empty_like)
    for part, passed in zip(reversed(parts), reversed(kept), strict=True):
        segment = _split_tokens(tokens, part, length)
        d_read = _rows(_split(d_output[:, part], length))
        d_segment, d_state = _segment_vjp(segment, passed, d_read, d_state)
        for x, into in zip(d_segment, gradients, strict=True):
            if x is not None and into is not None:
                _join(x, into[:, part])
    return gradients, d_state


class _Incoming(NamedTuple):
    """The gradients of what chunks were prepared to, named and shaped like it."""

    started: Array
    products: Array  # [N, B, H, C, R or R + 1, C]
    to_end: Array
    whole: Array  # for each key: [N, B, H, Dk]
    erasing: Array | None


def _segment_vjp(
    tokens: Tokens, passed: _Passed, d_read: Array, d_state: Array
) -> tuple[Tokens, Array]:
    """The gradients of a segment's tokens, and of the state before it.

    Args:
        tokens: in chunks, `[N, B, H, C, ...]`.
        d_read: `[N, B, H, C * R, Dv]`, of what was read.
        d_state: `[B, H, Dk, Dv]`, of the state after the last chunk.
    """
    chunk = _prepare(tokens)
    d_states, d_written, d_state = _pass_back(chunk, passed.inverse, d_read, d_state)
    states, written = _transpose(passed.states), _transpose(passed.written)
    *shape, _ = tokens.query.shape
    d_products = (d_read @ written).reshape(*shape, written.shape[-1])
    d_value, d_beta, d_erasing = d_written, None, None
    if chunk.delta is not None:
        # Of (I + beta P)^-1 beta (V - (K G) S), all without beta first.
        erasing, overlap, beta = chunk.delta
        overlap = np.tril(overlap, -1)
        d_erasing = -(d_written @ states)
        d_overlap = -np.tril(d_written @ written, -1)
        d_beta = (
            np.sum(d_written * chunk.value, axis=-1, keepdims=True)
            + np.sum(d_erasing * erasing, axis=-1, keepdims=True)
            + np.sum(d_overlap * overlap, axis=-1, keepdims=True)
        )
        d_value, d_erasing = beta * d_written, beta * d_erasing
        d_products = np.concatenate([d_products, (beta * d_overlap)[..., None, :]], axis=-2)
    incoming = _Incoming(
        started=(d_read @ states).reshape(tokens.query.shape),
        products=d_products,
        to_end=passed.written @ _transpose(d_states),
        whole=np.sum(passed.states * d_states, axis=-1),
        erasing=d_erasing,
    )
    d_query, d_key, d_log_decay = _decayed_vjp(tokens, chunk, incoming)
    return Tokens(d_query, d_key, d_value, d_log_decay, d_beta), d_state


def _pass_back(
    chunk: _Chunk, inverse: Array | None, d_read: Array, d_state: Array
) -> tuple[Array, Array, Array]:
    """The gradients of the state after every chunk, of what is written, and of the first state.

    With delta that of what is written is the one of beta (V - (K G) S) instead. Back through a
    chunk the gradient decays, gains what was read, and loses what was erased.
    """
    gains, d_written = _transpose(chunk.started) @ d_read, _transpose(chunk.reads) @ d_read
    if chunk.delta is None and chunk.decays is None:
        sums = np.cumsum(np.concatenate([d_state[None], gains[::-1]]), axis=0)[::-1]
        return sums[1:], d_written + chunk.to_end @ sums[1:], sums[0]
    d_states = []
    for n in reversed(range(len(gains))):
        d_states.append(d_state)
        d_written[n] += chunk.to_end[n] @ d_state
        if chunk.decays is not None:
            d_state = chunk.decays.whole[n][..., None] * d_state
        d_state = d_state + gains[n]
        if chunk.delta is not None and inverse is not None:
            d_written[n] = _transpose(inverse[n]) @ d_written[n]
            lost = chunk.delta.beta[n] * d_written[n]
            d_state -= _transpose(chunk.delta.erasing[n]) @ lost
    return np.stack(d_states[::-1]), d_written, d_state


def _decayed_vjp(
    tokens: Tokens, chunk: _Chunk, incoming: _Incoming
) -> tuple[Array, Array, Array | None]:
    """The gradients of query, key and log_decay, from all that decays."""
    query, key, _, log_decay, _ = tokens
    group = query.shape[-2]
    d_query, d_key, d_decays = incoming.started, incoming.to_end, None
    if chunk.decays is not None and log_decay is not None:
        d_from_start = np.sum(d_query * query, axis=-2)
        if incoming.erasing is not None:
            d_from_start += incoming.erasing * key
        d_decays = Decays(d_from_start, d_key * key, incoming.whole)
        if log_decay.shape[-1] == 1:
            d_decays = Decays(*(np.sum(x, axis=-1, keepdims=True) for x in d_decays))
        d_query = d_query * chunk.decays.from_start[..., None, :]
        d_key = d_key * chunk.decays.to_end
    if incoming.erasing is not None:
        erasing = incoming.erasing
        d_key = d_key + (erasing if chunk.decays is None else erasing * chunk.decays.from_start)
    d_rows, d_products_key, d_log_decay = decayed_products_vjp(
        chunk.rows, key, log_decay, incoming.products, d_decays
    )
    d_query = d_query + d_rows[..., :group, :]
    d_key = d_key + d_products_key + np.sum(d_rows[..., group:, :], axis=-2)
    return d_query, d_key, d_log_decay


def _transpose(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)
