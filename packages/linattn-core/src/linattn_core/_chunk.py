"""The chunk-parallel form: one core for the four rules, with and without decay and delta.

Inside the chunks everything is computed for all chunks at once; one serial pass hands the
state from chunk to chunk; then all outputs are read at once. Tokens are `[N, B, H, C, ...]`:
N chunks of C.
"""

import numpy as np

from linattn_core._decay import decayed_products
from linattn_core._inverse import solve_unit_lower
from linattn_core._tokens import Array, Tokens
from linattn_core.chunks import chunk_count


def parallel(tokens: Tokens, state: Array, length: int) -> tuple[Array, Array]:
    """The output `[B, T, H, R, Dv]` and the state after the last token, in chunks of `length`."""
    count = tokens.key.shape[1]
    query, key, value, log_decay, beta = tokens.map(lambda x: _split(x, length))
    group = query.shape[-2]

    rows = query if beta is None else np.concatenate([query, key[..., None, :]], axis=-2)
    products, decays = decayed_products(rows, key, log_decay)
    reads = products[..., :group, :]
    started = query if decays is None else query * decays.from_start[..., None, :]
    to_end = key if decays is None else key * decays.to_end

    erased = None
    if beta is not None:
        # value - erased @ state is what the delta rule writes: (I + L)^-1 beta (V - (K G) S).
        from_start = key if decays is None else key * decays.from_start
        strict = np.tril(beta * products[..., group, :], -1)
        solved = solve_unit_lower(strict, beta * np.concatenate([value, from_start], axis=-1))
        value, erased = np.split(solved, [value.shape[-1]], axis=-1)

    states, final_state = _pass_states(value, erased, to_end, decays and decays.whole, state)
    written = value if erased is None else value - erased @ states
    output = _rows(started) @ states + _rows(reads) @ written
    return _join(output.reshape(*query.shape[:-1], state.shape[-1]), count), final_state


def _pass_states(
    value: Array, erased: Array | None, to_end: Array, whole: Array | None, state: Array
) -> tuple[Array, Array]:
    """The state before every chunk `[N, B, H, Dk, Dv]`, and after the last one."""
    to_end = np.swapaxes(to_end, -1, -2)
    if erased is None and whole is None:
        # "linear": nothing is undone, so the states are sums; no loop.
        sums = np.cumsum(np.concatenate([state[None], to_end @ value]), axis=0)
        return sums[:-1], sums[-1]
    states = []
    for n in range(len(value)):
        states.append(state)
        written = value[n] if erased is None else value[n] - erased[n] @ state
        kept = state if whole is None else whole[n][..., None] * state
        state = kept + to_end[n] @ written
    return np.stack(states), state


def _split(x: Array, length: int) -> Array:
    """`[B, T, H, ...]` as `[N, B, H, C, ...]`, padded with tokens that do nothing."""
    batch, count = x.shape[:2]
    chunks = chunk_count(length, count)
    padding = [(0, 0), (0, chunks * length - count)] + [(0, 0)] * (x.ndim - 2)
    x = np.pad(x, padding).reshape(batch, chunks, length, *x.shape[2:])
    return np.moveaxis(x, (1, 0, 3), (0, 1, 2))


def _join(x: Array, count: int) -> Array:
    """`[N, B, H, C, ...]` as `[B, T, H, ...]`, without the padding."""
    x = np.moveaxis(x, (0, 1, 2), (1, 0, 3))
    batch, chunks, length = x.shape[:3]
    return x.reshape(batch, chunks * length, *x.shape[3:])[:, :count]


def _rows(x: Array) -> Array:
    """`[..., C, R, D]` as `[..., C * R, D]`."""
    *lead, length, group, width = x.shape
    return x.reshape(*lead, length * group, width)
