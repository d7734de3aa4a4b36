"""The chunk-parallel form: one core for the four rules, with and without decay and delta.

All chunks are prepared at once, without their states; one serial pass hands the state from chunk
to chunk ("linear" only sums); then all chunks are read at once. Tokens are `[N, B, H, C, ...]`:
N chunks of C.
"""

from operator import index
from typing import NamedTuple

import torch

from linattn_core.chunks import chunk_count
from linattn_torch._decay import decayed_products
from linattn_torch._inverse import solve_unit_lower
from linattn_torch._scan import scan
from linattn_torch._tokens import Tensor, Tokens


def parallel(tokens: Tokens, state: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """The output `[B, T, H, R, Dv]` and the state after the last token, in chunks of `length`."""
    count = tokens.key.shape[1]
    chunk = _prepare(tokens.map(lambda x: _split(x, length)))
    if tokens.beta is None and tokens.log_decay is None:
        # "linear": nothing is undone, so the states are sums; no loop.
        sums = torch.cumsum(torch.cat([state[None], chunk.to_end.mT @ chunk.value]), dim=0)
        states, final_state = sums[:-1], sums[-1]
    else:
        final_state, states = scan(_pass_state, state, chunk)
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
    return _Chunk(started, reads, to_end, value, erased, None if decays is None else decays.whole)


def _written(chunk: _Chunk, state: Tensor) -> Tensor:
    """What the tokens of a chunk that starts from `state` write at their keys `[..., C, Dv]`."""
    return chunk.value if chunk.erased is None else chunk.value - chunk.erased @ state


def _read(chunk: _Chunk, state: Tensor, written: Tensor) -> Tensor:
    """The output `[..., C, R, Dv]` of a chunk that starts from `state`."""
    output = _rows(chunk.started) @ state + _rows(chunk.reads) @ written
    return output.reshape(*chunk.started.shape[:-1], state.shape[-1])


def _pass_state(state: Tensor, chunk: _Chunk) -> tuple[Tensor, Tensor]:
    """The state after a chunk, and the one before it."""
    kept = state if chunk.whole is None else chunk.whole[..., None] * state
    return kept + chunk.to_end.mT @ _written(chunk, state), state


def _split(x: Tensor, length: int) -> Tensor:
    """`[B, T, H, ...]` as `[N, B, H, C, ...]`, padded with tokens that do nothing."""
    _, count, *rest = x.shape
    chunks = _chunks(length, count)
    padding = (0, 0) * len(rest) + (0, chunks * length - count)
    x = torch.nn.functional.pad(x, padding)
    if torch.compiler.is_exporting():
        # A reshape would ask whether chunks divide it, which an open size does not answer.
        x = x.unfold(1, length, length).movedim(-1, 2)
    else:
        x = x.unflatten(1, (chunks, length))
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
    x = x.flatten(1, 2)
    if torch.compiler.is_exporting():
        # A slice would ask whether it is contiguous, which an open size does not answer.
        return x.index_select(1, torch.arange(count, device=x.device))
    return x[:, :count].contiguous()


def _rows(x: Tensor) -> Tensor:
    """`[..., C, R, D]` as `[..., C * R, D]`."""
    *lead, length, group, width = x.shape
    return x.reshape(*lead, length * group, width)
