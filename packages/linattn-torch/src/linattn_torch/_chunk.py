"""The chunk-parallel form: one core for the four rules, with and without decay and delta.

Chunks are prepared without their states, several at once; one serial pass hands the state from
chunk to chunk ("linear" only sums); then they are read at once. On a CPU that is done for one
segment of the sequence after the other, so that what is computed with stays in its caches.
Chunks are `[N, M, C, ...]`: N chunks of C tokens, M = B * H states.
"""

from collections.abc import Iterator
from operator import index
from typing import NamedTuple

import torch

from linattn_core.chunks import chunk_count
from linattn_torch._decay import Decays, decayed_products
from linattn_torch._inverse import invert_unit_lower
from linattn_torch._scan import scan
from linattn_torch._tokens import Tensor, Tokens

# The tensors of a segment have about this many elements: two MiB in float32.
SEGMENT = 2**19


def parallel(
    tokens: Tokens, state: Tensor, length: int, kept: list[Tensor | None] | None = None
) -> tuple[Tensor, Tensor]:
    """The output `[B, T, H, R, Dv]` and the state after the last token, in chunks of `length`.

    `kept` takes what the serial pass makes of every segment, a `_Passed` each, for the gradient.
    """
    outputs = []
    for segment in _segments(tokens, length):
        chunk = _prepare(segment.map(lambda x: _split(x, length)))
        passed, state = _pass_states(chunk, state)
        outputs.append(_read(chunk, passed))
        if kept is not None:
            kept.extend(passed)
    return _join(outputs, tokens.key), state


class _Chunk(NamedTuple):
    """Chunks of C tokens, R query heads per state head, before their states are known."""

    decays: Decays | None
    started: Tensor  # the queries, decayed from the chunk's start: [N, M, C * R, Dk]
    reads: Tensor  # what each query reads of what each token writes: [N, M, C * R, C]
    to_end: Tensor  # the keys, decayed to the chunk's end: [N, M, C, Dk]
    value: Tensor  # [N, M, C, Dv]
    delta: "_Delta | None"


class _Delta(NamedTuple):
    """What only the delta rules have: (I + beta P)^-1 beta (V - (K G) S) is written."""

    erasing: Tensor  # K G, the keys, decayed from the chunk's start: [N, M, C, Dk]
    overlap: Tensor  # P below the diagonal, anything above: [N, M, C, C]
    beta: Tensor  # [N, M, C, 1]


class _Passed(NamedTuple):
    """What the serial pass makes of chunks."""

    states: Tensor  # before each chunk: [N, M, Dk, Dv]
    written: Tensor | None  # [N, M, C, Dv], None for the value
    inverse: Tensor | None  # (I + beta P)^-1: [N, M, C, C]


def _prepare(tokens: Tokens) -> _Chunk:
    query, key, value, log_decay, beta = tokens
    rows = (query,) if beta is None else (query, key[..., None, :])
    (reads, *own), decays = decayed_products(rows, key, log_decay)
    started = query if decays is None else query * decays.from_start[..., None, :]
    to_end = key if decays is None else key * decays.to_end
    delta = None
    if beta is not None:
        erasing = key if decays is None else key * decays.from_start
        delta = _Delta(erasing, own[0][..., 0, :], beta)
    return _Chunk(decays, _rows(started), _rows(reads), to_end, value, delta)


class _Step(NamedTuple):
    """What the serial pass needs of a chunk, `[M, ...]`."""

    to_end: Tensor
    value: Tensor
    erasing: Tensor | None
    beta: Tensor | None
    inverse: Tensor | None
    whole: Tensor | None


def _pass_states(chunk: _Chunk, state: Tensor) -> tuple[_Passed, Tensor]:
    """What the serial pass makes of chunks, and the state after the last one."""
    shape, state = state.shape, state.flatten(0, 1)
    inverse = written = None
    if chunk.delta is None and chunk.decays is None:
        # "linear": nothing is undone, so the states are sums; no loop.
        sums = torch.cumsum(torch.cat([state[None], chunk.to_end.mT @ chunk.value]), dim=0)
        states, state = sums[:-1], sums[-1]
    else:
        erasing = beta = None
        if chunk.delta is not None:
            erasing, overlap, beta = chunk.delta
            inverse = invert_unit_lower(beta * overlap)
        whole = None if chunk.decays is None else chunk.decays.whole
        steps = _Step(chunk.to_end, chunk.value, erasing, beta, inverse, whole)
        state, (states, *rest) = scan(_pass_state, state, steps)
        written = rest[0] if rest else None
    return _Passed(states, written, inverse), state.unflatten(0, shape[:2])


def _pass_state(state: Tensor, chunk: _Step) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The state after a chunk; the one before it, and what is written if that is not the value."""
    kept = state if chunk.whole is None else chunk.whole[..., None] * state
    if chunk.inverse is None:
        return torch.baddbmm(kept, chunk.to_end.mT, chunk.value), (state,)
    missing = torch.baddbmm(chunk.value, chunk.erasing, state, alpha=-1)
    written = chunk.inverse @ (chunk.beta * missing)
    return torch.baddbmm(kept, chunk.to_end.mT, written), (state, written)


def _read(chunk: _Chunk, passed: _Passed) -> Tensor:
    """The output `[N, M, C, R, Dv]`."""
    written = chunk.value if passed.written is None else passed.written
    first = (chunk.started @ passed.states).flatten(0, 1)
    read = torch.baddbmm(first, chunk.reads.flatten(0, 1), written.flatten(0, 1))
    *lead, length, width = written.shape
    group = chunk.reads.shape[-2] // length
    return read.reshape(*lead, length, group, width)


def _segments(tokens: Tokens, length: int) -> Iterator[Tokens]:
    """The sequence in parts of whole chunks; whole where it is traced, or not on a CPU."""
    if torch.compiler.is_compiling() or tokens.key.device.type != "cpu":
        yield tokens
        return
    batch, _, heads, group, width = tokens.query.shape
    largest = length * max(length * group, width * group, tokens.value.shape[-1])
    chunks = max(1, SEGMENT // max(1, batch * heads * largest))
    # Split and not sliced: the gradient of a slice has the size of the whole sequence.
    parts = (x.split(chunks * length, dim=1) for x in tokens if x is not None)
    for part in zip(*parts, strict=True):
        present = iter(part)
        yield Tokens(*(x if x is None else next(present) for x in tokens))


def _split(x: Tensor, length: int) -> Tensor:
    """`[B, T, H, ...]` as `[N, B * H, C, ...]`, padded with tokens that do nothing."""
    _, count, *rest = x.shape
    chunks = _chunks(length, count)
    padding = chunks * length - count
    if torch.compiler.is_exporting():
        # A reshape would ask whether chunks divide it, which an open size does not answer.
        x = torch.nn.functional.pad(x, (0, 0) * len(rest) + (0, padding))
        x = x.unfold(1, length, length).movedim(-1, 2)
    else:
        if padding:
            x = torch.nn.functional.pad(x, (0, 0) * len(rest) + (0, padding))
        x = x.unflatten(1, (chunks, length))
    return x.movedim((1, 0, 3), (0, 1, 2)).flatten(1, 2).contiguous()


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


def _join(parts: list[Tensor], key: Tensor) -> Tensor:
    """`[N, B * H, C, ...]` of every segment as one `[B, T, H, ...]`, without the padding."""
    batch, count, heads = key.shape[:3]
    parts = [x.unflatten(1, (batch, heads)).movedim((0, 1, 2), (1, 0, 3)) for x in parts]
    x = torch.cat(parts, dim=1).flatten(1, 2)
    if torch.compiler.is_exporting():
        # A slice would ask whether it is contiguous, which an open size does not answer.
        return x.index_select(1, torch.arange(count, device=x.device))
    return x[:, :count]


def _rows(x: Tensor) -> Tensor:
    """`[..., C, R, D]` as `[..., C * R, D]`."""
    *lead, length, group, width = x.shape
    return x.reshape(*lead, length * group, width)
