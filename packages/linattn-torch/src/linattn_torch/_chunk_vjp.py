"""The gradients of the chunk-parallel form, from what its serial pass made.

Kept are the tokens and, of each chunk, its state, what it wrote and its inverse. Going backwards, a
segment is prepared again, one serial pass hands the gradient of the state from chunk to chunk, and
only the preparation is left to autograd. The gradient of L is -(d_value written') because what was
written is known: neither the inverse nor the pass is differentiated.
"""

from typing import Any

import torch
from torch.autograd import forward_ad

from linattn_torch._chunk import (
    _Chunk,
    _join,
    _Passed,
    _prepare,
    _rows,
    _segments,
    _split,
    parallel,
)
from linattn_torch._precision import full_precision
from linattn_torch._tokens import Tensor, Tokens


def parallel_with_vjp(tokens: Tokens, state: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """`parallel`, with gradients that are lean in time and memory wherever autograd takes them.

    Transforms, forward mode and tracing differentiate `parallel` itself.
    """
    present = [x for x in (*tokens, state) if x is not None]
    if _is_transformed(present) or not _needs_gradient(present):
        return parallel(tokens, state, length)
    return _Parallel.apply(length, *tokens, state)


def _needs_gradient(tensors: list[Tensor]) -> bool:
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)


def _is_transformed(tensors: list[Tensor]) -> bool:
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._are_functorch_transforms_active()
        or any(forward_ad.unpack_dual(x).tangent is not None for x in tensors)
    )


class _Parallel(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, length: int, *given: Tensor | None) -> tuple[Tensor, Tensor]:
        *tokens, state = given
        kept: list[Tensor | None] = []
        results = parallel(Tokens(*tokens), state, length, kept)
        ctx.length = length
        ctx.save_for_backward(*given, *kept)
        return results

    @staticmethod
    def backward(ctx: Any, d_output: Tensor, d_state: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        given, kept = saved[:6], saved[6:]
        with full_precision(d_output):
            if torch.is_grad_enabled():
                # Second derivatives are wanted, so the first are made of what has some.
                return None, *_differentiate(given, ctx.length, d_output, d_state)
            return None, *_parallel_vjp(given, kept, ctx.length, d_output, d_state)


def _differentiate(
    given: tuple[Tensor | None, ...], length: int, d_output: Tensor, d_state: Tensor
) -> list[Tensor | None]:
    *tokens, state = given
    wanted = [x for x in given if x is not None and x.requires_grad]
    results = parallel(Tokens(*tokens), state, length)
    found = torch.autograd.grad(results, wanted, (d_output, d_state), create_graph=True)
    gradients = iter(found)
    return [next(gradients) if x is not None and x.requires_grad else None for x in given]


def _parallel_vjp(
    given: tuple[Tensor | None, ...],
    kept: tuple[Tensor | None, ...],
    length: int,
    d_output: Tensor,
    d_state: Tensor,
) -> list[Tensor | None]:
    tokens = Tokens(*given[:-1])
    segments = list(_segments(tokens, length))
    d_outputs = d_output.split([segment.key.shape[1] for segment in segments], dim=1)
    gradients = []
    for n in reversed(range(len(segments))):
        passed = _Passed(*kept[3 * n : 3 * n + 3])
        leaves = segments[n].map(lambda x: _split(x, length).detach().requires_grad_())
        with torch.enable_grad():
            chunk = _prepare(leaves)
        d_read = _rows(_split(d_outputs[n], length))
        d_chunk, d_state = _chunk_vjp(chunk, passed, d_read, d_state)
        gradients.append(_back_to_leaves(leaves, chunk, d_chunk))
    joined = (_join(list(parts[::-1]), tokens.key) for parts in zip(*gradients, strict=True))
    return [None if x is None else next(joined) for x in given[:-1]] + [d_state]


def _back_to_leaves(leaves: Tokens, chunk: _Chunk, d_chunk: _Chunk) -> tuple[Tensor, ...]:
    """The gradients of what chunks were prepared from, where there is something."""
    outputs, d_outputs = zip(
        *((x, dx) for x, dx in zip(chunk, d_chunk, strict=True) if x is not None), strict=True
    )
    return torch.autograd.grad(outputs, [x for x in leaves if x is not None], d_outputs)


def _chunk_vjp(
    chunk: _Chunk, passed: _Passed, d_read: Tensor, d_state: Tensor
) -> tuple[_Chunk, Tensor]:
    """The gradients of chunks, and of the state before the first one.

    Args:
        d_read: `[N, M, C * R, Dv]`, of what was read.
        d_state: `[B, H, Dk, Dv]`, of the state after the last chunk.
    """
    states, written, inverse = passed
    written = chunk.value if written is None else written
    d_states, d_value, d_state = _pass_back(chunk, inverse, d_read, d_state)
    d_erasing = d_strict = d_whole = None
    if inverse is not None:
        lost = -d_value
        d_erasing = lost @ states.mT
        d_strict = torch.tril(lost @ written.mT, -1)
    if chunk.whole is not None:
        d_whole = torch.sum(states * d_states, dim=-1).sum_to_size(chunk.whole.shape)
    d_chunk = _Chunk(
        started=d_read @ states.mT,
        reads=d_read @ written.mT,
        to_end=written @ d_states.mT,
        value=d_value,
        erasing=d_erasing,
        strict=d_strict,
        whole=d_whole,
    )
    return d_chunk, d_state


def _pass_back(
    chunk: _Chunk, inverse: Tensor | None, d_read: Tensor, d_state: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the state after every chunk, of value, and of the state before the first.

    Back through a chunk the gradient decays, gains what was read, and loses what was erased.
    """
    shape, d_state = d_state.shape, d_state.flatten(0, 1)
    gains, d_written = chunk.started.mT @ d_read, chunk.reads.mT @ d_read
    if inverse is None and chunk.whole is None:
        sums = torch.cumsum(torch.cat([d_state[None], gains.flip(0)]), dim=0).flip(0)
        d_states, d_state = sums[1:], sums[0]
        d_value = d_written + chunk.to_end @ d_states
    else:
        d_states, d_values = [], []
        for n in reversed(range(len(gains))):
            d_states.append(d_state)
            d_value = torch.baddbmm(d_written[n], chunk.to_end[n], d_state)
            if chunk.whole is not None:
                d_state = chunk.whole[n, ..., None] * d_state
            d_state = d_state + gains[n]
            if inverse is not None:
                d_value = inverse[n].mT @ d_value
                d_state = torch.baddbmm(d_state, chunk.erasing[n].mT, d_value, alpha=-1)
            d_values.append(d_value)
        d_states, d_value = torch.stack(d_states[::-1]), torch.stack(d_values[::-1])
    return d_states, d_value, d_state.unflatten(0, shape[:2])
