"""The gradients of the chunk-parallel form, from one state per chunk.

Only the tokens and the initial state are needed. Everything else is computed again, then one
serial pass hands the gradient of the state from chunk to chunk, backwards; before and after it,
all chunks at once. The products of two tokens get their gradient without a product of three
`[C, C]` matrices, because what was written is known: -(d_value written') below the diagonal.
"""

from typing import NamedTuple

import numpy as np

from linattn_core._chunk import _join, _pass_states, _rows, _split
from linattn_core._decay import Decays, decayed_products
from linattn_core._decay_vjp import decayed_products_vjp
from linattn_core._inverse import invert_unit_lower
from linattn_core._tokens import Array, Tokens


class _Chunks(NamedTuple):
    """What the forward pass makes of the tokens of all chunks, in the notation of (C1)-(C5)."""

    rows: Array  # query, and key behind it for the delta rules: [N, B, H, C, R or R + 1, Dk]
    decays: Decays | None
    reads: Array  # A, with R rows for each token: [N, B, H, C * R, C]
    started: Array  # query from the chunk's start: [N, B, H, C * R, Dk]
    ended: Array  # key to the chunk's end: [N, B, H, C, Dk]
    states: Array  # before every chunk: [N, B, H, Dk, Dv]
    written: Array  # [N, B, H, C, Dv]
    delta: "_Delta | None"


class _Delta(NamedTuple):
    """What only the delta rules have."""

    erasing: Array  # key from the chunk's start: [N, B, H, C, Dk]
    overlap: Array  # P(K, K) below the diagonal: [N, B, H, C, C]
    inverse: Array  # (I + L)^-1: [N, B, H, C, C]


def parallel_vjp(
    tokens: Tokens, state: Array, length: int, d_output: Array, d_state: Array
) -> tuple[Tokens, Array]:
    """The gradients of the tokens and of the initial state, shaped like them.

    Args:
        tokens, state, length: the arguments of `parallel`.
        d_output: `[B, T, H, R, Dv]`, of its output.
        d_state: `[B, H, Dk, Dv]`, of its final state.
    """
    count = tokens.key.shape[1]
    tokens = tokens.map(lambda x: _split(x, length))
    chunks = _compute(tokens, state)
    d_read = _rows(_split(d_output, length))
    d_states, d_state = _pass_back(tokens.beta, chunks, d_read, d_state)

    d_value = d_written = _transpose(chunks.reads) @ d_read + chunks.ended @ d_states
    d_products = d_read @ _transpose(chunks.written)
    d_products = d_products.reshape(*tokens.query.shape[:-1], length)
    d_erasing = d_beta = None
    if tokens.beta is not None and chunks.delta is not None:
        erasing, overlap, inverse = chunks.delta
        error = tokens.value - erasing @ chunks.states - overlap @ chunks.written
        d_error = _transpose(inverse) @ d_written
        d_beta = np.sum(d_error * error, axis=-1, keepdims=True)
        d_value = tokens.beta * d_error
        d_erasing = -d_value @ _transpose(chunks.states)
        d_overlap = -np.tril(d_value @ _transpose(chunks.written), -1)
        d_products = np.concatenate([d_products, d_overlap[..., None, :]], axis=-2)

    d_query, d_key, d_log_decay = _decayed_vjp(
        tokens,
        chunks,
        d_products,
        d_started=(d_read @ _transpose(chunks.states)).reshape(tokens.query.shape),
        d_ended=chunks.written @ _transpose(d_states),
        d_erasing=d_erasing,
        d_whole=np.sum(chunks.states * d_states, axis=-1),
    )
    gradient = Tokens(d_query, d_key, d_value, d_log_decay, d_beta)
    return gradient.map(lambda x: _join(x, count)), d_state


def _compute(tokens: Tokens, state: Array) -> _Chunks:
    """The forward pass, as `parallel`."""
    query, key, value, log_decay, beta = tokens
    group = query.shape[-2]
    rows = query if beta is None else np.concatenate([query, key[..., None, :]], axis=-2)
    products, decays = decayed_products(rows, key, log_decay)
    from_start, to_end, _ = decays or _no_decays(key)
    ended, whole, delta = key * to_end, decays and decays.whole, None
    if beta is None:
        states, _ = _pass_states(value, None, ended, whole, state)
        written = value
    else:
        erasing = key * from_start
        overlap = np.tril(products[..., group, :], -1)
        inverse = invert_unit_lower(beta * overlap)
        solved, erased = inverse @ (beta * value), inverse @ (beta * erasing)
        states, _ = _pass_states(solved, erased, ended, whole, state)
        written = solved - erased @ states
        delta = _Delta(erasing, overlap, inverse)
    started = _rows(query * from_start[..., None, :])
    reads = _rows(products[..., :group, :])
    return _Chunks(rows, decays, reads, started, ended, states, written, delta)


def _pass_back(
    beta: Array | None, chunks: _Chunks, d_read: Array, d_state: Array
) -> tuple[Array, Array]:
    """The gradient of the state after every chunk `[N, B, H, Dk, Dv]`, and before the first one.

    Back through a chunk the gradient decays, gains what was read, and loses what was erased.
    """
    gains = _transpose(chunks.started) @ d_read
    erasing = carried = None
    if beta is not None and chunks.delta is not None:
        erasing = _transpose(chunks.delta.erasing)
        back = beta * _transpose(chunks.delta.inverse)
        gains = gains - erasing @ (back @ (_transpose(chunks.reads) @ d_read))
        carried = back @ chunks.ended
    elif chunks.decays is None:
        sums = np.cumsum(np.concatenate([d_state[None], gains[::-1]]), axis=0)[::-1]
        return sums[1:], sums[0]
    d_states = []
    for n in reversed(range(len(gains))):
        d_states.append(d_state)
        kept = d_state if chunks.decays is None else chunks.decays.whole[n][..., None] * d_state
        if erasing is not None and carried is not None:
            kept = kept - erasing[n] @ (carried[n] @ d_state)
        d_state = kept + gains[n]
    return np.stack(d_states[::-1]), d_state


def _decayed_vjp(
    tokens: Tokens,
    chunks: _Chunks,
    d_products: Array,
    *,
    d_started: Array,
    d_ended: Array,
    d_erasing: Array | None,
    d_whole: Array,
) -> tuple[Array, Array, Array | None]:
    """The gradients of query, key and log_decay, from all that decays."""
    query, key, _, log_decay, _ = tokens
    group = query.shape[-2]
    from_start, to_end, _ = chunks.decays or _no_decays(key)
    d_query = d_started * from_start[..., None, :]
    d_key = d_ended * to_end
    d_from_start = np.sum(d_started * query, axis=-2)
    if d_erasing is not None:
        d_key = d_key + d_erasing * from_start
        d_from_start = d_from_start + d_erasing * key
    d_decays = None
    if log_decay is not None:
        d_decays = Decays(d_from_start, d_ended * key, d_whole)
        if log_decay.shape[-1] == 1:
            d_decays = Decays(*(np.sum(x, axis=-1, keepdims=True) for x in d_decays))
    d_rows, d_products_key, d_log_decay = decayed_products_vjp(
        chunks.rows, key, log_decay, d_products, d_decays
    )
    d_query = d_query + d_rows[..., :group, :]
    d_key = d_key + d_products_key + np.sum(d_rows[..., group:, :], axis=-2)
    return d_query, d_key, d_log_decay


def _no_decays(key: Array) -> Decays:
    one = np.ones((1, 1), key.dtype)
    return Decays(from_start=one, to_end=one, whole=one[0])


def _transpose(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)
