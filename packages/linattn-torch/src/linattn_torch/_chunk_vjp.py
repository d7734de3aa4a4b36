"""The gradients of the chunk-parallel form, from what its serial pass made.

Kept are the tokens and, of each chunk, its state, what it wrote and its inverse. Going backwards, a
segment is prepared again, one serial pass hands the gradient of the state from chunk to chunk, and
before and after it all chunks are worked on at once. The products of two tokens get their gradient
without a product of three `[C, C]` matrices, because what was written is known: -(d_written
written') below the diagonal.
"""

from typing import Any, NamedTuple

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
from linattn_torch._decay import Decays
from linattn_torch._decay_vjp import add_decayed_products_vjp
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
        segment = segments[n].map(lambda x: _split(x, length))
        passed = _Passed(*kept[3 * n : 3 * n + 3])
        d_read = _rows(_split(d_outputs[n], length))
        d_segment, d_state = _segment_vjp(segment, passed, d_read, d_state)
        gradients.append(d_segment)
    joined = (
        None if parts[0] is None else _join(list(parts[::-1]), tokens.key)
        for parts in zip(*gradients, strict=True)
    )
    return [*joined, d_state]


class _Incoming(NamedTuple):
    """The gradients of what chunks were prepared to, named and shaped like it; written over."""

    started: Tensor  # [N, M, C, R, Dk]
    products: tuple[Tensor, ...]  # of the queries, and of the keys with delta: [N, M, C, R, C]
    to_end: Tensor
    whole: Tensor  # for each key: [N, M, Dk]
    erasing: Tensor | None


def _segment_vjp(
    tokens: Tokens, passed: _Passed, d_read: Tensor, d_state: Tensor
) -> tuple[Tokens, Tensor]:
    """The gradients of a segment's tokens, and of the state before it.

    Args:
        tokens: in chunks, `[N, M, C, ...]`.
        d_read: `[N, M, C * R, Dv]`, of what was read.
        d_state: `[B, H, Dk, Dv]`, of the state after the last chunk.
    """
    chunk = _prepare(tokens)
    states, written, inverse = passed
    written = chunk.value if written is None else written
    d_states, d_written, d_state = _pass_back(chunk, inverse, d_read, d_state)
    *shape, _ = tokens.query.shape
    d_products = ((d_read @ written.mT).reshape(*shape, written.shape[-2]),)
    d_value, d_beta, d_erasing = d_written, None, None
    if chunk.delta is not None:
        # Of (I + beta P)^-1 beta (V - (K G) S), all without beta first.
        erasing, overlap, beta = chunk.delta
        d_erasing = (d_written @ states.mT).neg_()
        d_overlap = (d_written @ written.mT).tril_(-1).neg_()
        d_beta = _dot(d_written, chunk.value) + _dot(d_erasing, erasing) + _dot(d_overlap, overlap)
        d_value, d_erasing = d_written.mul_(beta), d_erasing.mul_(beta)
        d_products = *d_products, d_overlap.mul_(beta)[..., None, :]
    incoming = _Incoming(
        started=(d_read @ states.mT).reshape(tokens.query.shape),
        products=d_products,
        to_end=written @ d_states.mT,
        whole=_dot(states, d_states)[..., 0],
        erasing=d_erasing,
    )
    d_query, d_key, d_log_decay = _decayed_vjp(tokens, chunk, incoming)
    return Tokens(d_query, d_key, d_value, d_log_decay, d_beta), d_state


def _pass_back(
    chunk: _Chunk, inverse: Tensor | None, d_read: Tensor, d_state: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the state after every chunk, of what is written, and of the first state.

    With delta that of what is written is the one of beta (V - (K G) S) instead. Back through a
    chunk the gradient decays, gains what was read, and loses what was erased.
    """
    shape, d_state = d_state.shape, d_state.flatten(0, 1)
    gains, d_reads = chunk.started.mT @ d_read, chunk.reads.mT @ d_read
    if chunk.delta is None and chunk.decays is None:
        sums = torch.cumsum(torch.cat([d_state[None], gains.flip(0)]), dim=0).flip(0)
        d_states, d_state = sums[1:], sums[0]
        d_written = d_reads + chunk.to_end @ d_states
    else:
        d_states, d_writes = [], []
        for n in reversed(range(len(gains))):
            d_states.append(d_state)
            d_written = torch.baddbmm(d_reads[n], chunk.to_end[n], d_state)
            if chunk.decays is not None:
                d_state = chunk.decays.whole[n, ..., None] * d_state
            d_state = d_state + gains[n]
            if inverse is not None:
                d_written = inverse[n].mT @ d_written
                lost = chunk.delta.beta[n] * d_written
                d_state = torch.baddbmm(d_state, chunk.delta.erasing[n].mT, lost, alpha=-1)
            d_writes.append(d_written)
        d_states, d_written = torch.stack(d_states[::-1]), torch.stack(d_writes[::-1])
    return d_states, d_written, d_state.unflatten(0, shape[:2])


def _decayed_vjp(
    tokens: Tokens, chunk: _Chunk, incoming: _Incoming
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The gradients of query, key and log_decay, from all that decays."""
    query, key, _, log_decay, _ = tokens
    d_query, d_key, d_erasing = incoming.started, incoming.to_end, incoming.erasing
    d_exponents = None
    if chunk.decays is not None:
        from_start = torch.sum(d_query * chunk.started.reshape(query.shape), dim=-2)
        if chunk.delta is not None:
            from_start.addcmul_(d_erasing, chunk.delta.erasing)
        whole = chunk.decays.whole * incoming.whole
        d_exponents = Decays(from_start, d_key * chunk.to_end, whole)
        d_query.mul_(chunk.decays.from_start[..., None, :])
        d_key.mul_(chunk.decays.to_end)
    rows, d_rows = [query], [d_query]
    products = [chunk.reads.reshape(incoming.products[0].shape)]
    if chunk.delta is not None:
        d_key += d_erasing if chunk.decays is None else d_erasing.mul_(chunk.decays.from_start)
        rows.append(key[..., None, :])
        d_rows.append(d_key[..., None, :])
        products.append(chunk.delta.overlap[..., None, :])
    d_log_decay = add_decayed_products_vjp(
        rows, key, log_decay, chunk.decays, products, incoming.products, d_exponents, d_rows, d_key
    )
    return d_query, d_key, d_log_decay


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return torch.sum(x * y, dim=-1, keepdim=True)
