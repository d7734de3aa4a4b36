"""The chunk-parallel form: one core for the four rules, with and without decay and delta.

Inside the chunks everything is computed for all chunks at once; one serial pass hands the
state from chunk to chunk; then all outputs are read at once. Tokens are `[N, B, H, C, ...]`:
N chunks of C.
"""

from operator import index

import torch

from linattn_core.chunks import chunk_count
from linattn_torch._decay import decayed_products
from linattn_torch._inverse import solve_unit_lower
from linattn_torch._scan import scan
from linattn_torch._tokens import Tensor, Tokens


def parallel(tokens: Tokens, state: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """The output `[B, T, H, R, Dv]` and the state after the last token, in chunks of `length`."""
    count = tokens.key.shape[1]
    query, key, value, log_decay, beta = tokens.map(lambda x: _split(x, length))
    group = query.shape[-2]

    rows = query if beta is None else torch.cat([query, key[..., None, :]], dim=-2)
    products, decays = decayed_products(rows, key, log_decay)
    reads = products[..., :group, :]
    started = query if decays is None else query * decays.from_start[..., None, :]
    to_end = key if decays is None else key * decays.to_end

    erased = None
    if beta is not None:
        # value - erased @ state is what the delta rule writes: (I + L)^-1 beta (V - (K G) S).
        from_start = key if decays is None else key * decays.from_start
        strict = torch.tril(beta * products[..., group, :], -1)
        solved = solve_unit_lower(strict, beta * torch.cat([value, from_start], dim=-1))
        value, erased = torch.split(solved, [value.shape[-1], key.shape[-1]], dim=-1)

    whole = None if decays is None else decays.whole
    states, final_state = _pass_states(value, erased, to_end, whole, state)
    written = value if erased is None else value - erased @ states
    output = _rows(started) @ states + _rows(reads) @ written
    return _join(output.reshape(*query.shape[:-1], state.shape[-1]), count), final_state


def _pass_states(
    value: Tensor, erased: Tensor | None, to_end: Tensor, whole: Tensor | None, state: Tensor
) -> tuple[Tensor, Tensor]:
    """The state before every chunk `[N, B, H, Dk, Dv]`, and after the last one."""
    to_end = to_end.mT
    if erased is None and whole is None:
        # "linear": nothing is undone, so the states are sums; no loop.
        sums = torch.cumsum(torch.cat([state[None], to_end @ value]), dim=0)
        return sums[:-1], sums[-1]

    def body(state, step):
        value, to_end, *rest = step
        written = value if erased is None else value - rest[0] @ state
        kept = state if whole is None else rest[-1][..., None] * state
        return kept + to_end @ written, state.clone()

    sequences = [x for x in (value, to_end, erased, whole) if x is not None]
    final_state, states = scan(body, state, sequences)
    return states, final_state


def _split(x: Tensor, length: int) -> Tensor:
    """`[B, T, H, ...]` as `[N, B, H, C, ...]`, padded with tokens that do nothing."""
    batch, count, *rest = x.shape
    chunks = _chunks(length, count)
    padding = (0, 0) * len(rest) + (0, chunks * length - count)
    x = torch.nn.functional.pad(x, padding).reshape(batch, chunks, length, *rest)
    return x.movedim((1, 0, 3), (0, 1, 2))


def _chunks(length: int, count: int) -> int:
    """The number of chunks; traced, one that always leaves room for padding.

    A trace takes a padding of 0 for a special case, and would be repeated for it. Compiled
    programs have a fixed number of chunks, exported ones an open one that is never 0 or 1.
    """
    if torch.compiler.is_exporting():
        return count // length + 2
    if torch.compiler.is_compiling():
        return index(count // length + 1)
    return chunk_count(length, count)


def _join(x: Tensor, count: int) -> Tensor:
    """`[N, B, H, C, ...]` as `[B, T, H, ...]`, without the padding."""
    x = x.movedim((0, 1, 2), (1, 0, 3))
    batch, chunks, length, *rest = x.shape
    return x.reshape(batch, chunks * length, *rest)[:, :count]


def _rows(x: Tensor) -> Tensor:
    """`[..., C, R, D]` as `[..., C * R, D]`."""
    *lead, length, group, width = x.shape
    return x.reshape(*lead, length * group, width)
