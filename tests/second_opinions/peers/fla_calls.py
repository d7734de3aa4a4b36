"""The reference functions of flash-linear-attention as calls of linear_attention.

Some have heads before tokens, two functions of one file order beta and g differently, some have no
scale, take no state or return none, and some chunked ones need whole chunks. None has a mask or
segments, but one takes packed sequences: it gets each segment as one, without the padding.
"""

from collections.abc import Callable
from typing import Any

import torch
from fla.ops.comba.naive import naive_chunk_comba, naive_recurrent_comba
from fla.ops.delta_rule.naive import (
    delta_rule_chunkwise,
    delta_rule_parallel,
    delta_rule_recurrence,
)
from fla.ops.gated_delta_product.naive import naive_recurrent_gated_delta_product
from fla.ops.gated_delta_rule.naive import (
    naive_chunk_gated_delta_rule,
    naive_recurrent_gated_delta_rule,
)
from fla.ops.gdn2.naive import naive_chunk_gdn2, naive_recurrent_gdn2
from fla.ops.gla.naive import naive_recurrent_gla
from fla.ops.kda.naive import naive_chunk_kda, naive_recurrent_kda
from fla.ops.linear_attn.naive import naive_chunk_linear_attn, naive_recurrent_linear_attn
from fla.ops.simple_gla.naive import (
    naive_chunk_simple_gla,
    naive_parallel_simple_gla,
    naive_recurrent_simple_gla,
)

from second_opinions.autograd import decay_per_head, decay_per_key, rate
from second_opinions.sequence import Sequence

Returned = tuple[torch.Tensor, torch.Tensor | None]


def _state(s: Sequence) -> dict[str, Any]:
    return {"initial_state": s.initial_state, "output_final_state": True}


# linear


def recurrent_linear(s: Sequence) -> Returned:
    return naive_recurrent_linear_attn(s.query, s.key, s.value, scale=s.scale, **_state(s))


def chunk_linear(s: Sequence) -> Returned:
    return naive_chunk_linear_attn(s.query, s.key, s.value, scale=s.scale), None


# gated


def recurrent_simple_gla(s: Sequence) -> Returned:
    decay = decay_per_head(s)
    return naive_recurrent_simple_gla(s.query, s.key, s.value, decay, scale=s.scale, **_state(s))


def chunk_simple_gla(s: Sequence) -> Returned:
    options = {"scale": s.scale, "chunk_size": s.chunk_size} | _state(s)
    return naive_chunk_simple_gla(s.query, s.key, s.value, decay_per_head(s), **options)


def parallel_simple_gla(s: Sequence) -> Returned:
    decay = decay_per_head(s)
    output, _ = naive_parallel_simple_gla(s.query, s.key, s.value, decay, scale=s.scale)
    return output, None


def recurrent_gla(s: Sequence) -> Returned:
    return naive_recurrent_gla(s.query, s.key, s.value, decay_per_key(s), **_state(s))


# delta


def recurrent_delta(s: Sequence) -> Returned:
    return _heads_first(delta_rule_recurrence, s, **_state(s))


def chunk_delta(s: Sequence) -> Returned:
    return _heads_first(delta_rule_chunkwise, s, chunk_size=s.chunk_size)


def parallel_delta(s: Sequence) -> Returned:
    output, _ = _heads_first(delta_rule_parallel, s)
    return output, None


def _heads_first(function: Callable[..., Any], s: Sequence, **options: Any) -> Returned:
    tokens = (x.transpose(1, 2) for x in (s.query, s.key, s.value, rate(s)))
    output, state = function(*tokens, **options)
    return output.transpose(1, 2), state


# gated_delta


def recurrent_gated_delta(s: Sequence) -> Returned:
    gates = {"beta": rate(s), "g": decay_per_head(s)}
    return naive_recurrent_gated_delta_rule(
        s.query, s.key, s.value, **gates, scale=s.scale, **_state(s)
    )


def chunk_gated_delta(s: Sequence) -> Returned:
    gates = {"beta": rate(s), "g": decay_per_head(s)}
    options = {"scale": s.scale, "chunk_size": s.chunk_size} | _state(s)
    return naive_chunk_gated_delta_rule(s.query, s.key, s.value, **gates, **options)


def recurrent_kda(s: Sequence) -> Returned:
    gates = {"beta": rate(s), "g": decay_per_key(s)}
    return naive_recurrent_kda(s.query, s.key, s.value, **gates, scale=s.scale, **_state(s))


def chunk_kda(s: Sequence) -> Returned:
    gates = {"beta": rate(s), "g": decay_per_key(s)}
    options = {"scale": s.scale, "chunk_size": s.chunk_size} | _state(s)
    return naive_chunk_kda(s.query, s.key, s.value, **gates, **options)


# gated_delta as a special case of a rule with more parameters


def recurrent_comba(s: Sequence) -> Returned:
    """The vector that reads the state for the error is the key itself."""
    gates = {"p": s.key, "beta": rate(s), "g": decay_per_head(s)}
    return naive_recurrent_comba(s.query, s.key, s.value, **gates, scale=s.scale, **_state(s))


def chunk_comba(s: Sequence) -> Returned:
    gates = {"p": s.key, "beta": rate(s), "g": decay_per_head(s)}
    options = {"scale": s.scale, "chunk_size": s.chunk_size} | _state(s)
    return naive_chunk_comba(s.query, s.key, s.value, **gates, **options)


def recurrent_gdn2(s: Sequence) -> Returned:
    return naive_recurrent_gdn2(
        s.query, s.key, s.value, **_erase_and_write(s), scale=s.scale, **_state(s)
    )


def chunk_gdn2(s: Sequence) -> Returned:
    options = {"scale": s.scale, "chunk_size": s.chunk_size} | _state(s)
    return naive_chunk_gdn2(s.query, s.key, s.value, **_erase_and_write(s), **options)


def _erase_and_write(s: Sequence) -> dict[str, torch.Tensor]:
    """Both gates are beta, the same along their axes."""
    beta = rate(s)[..., None]
    return {"g": decay_per_key(s), "b": beta.expand_as(s.key), "w": beta.expand_as(s.value)}


def packed_gated_delta_product(s: Sequence) -> Returned:
    """One reflection per token, on all rows and segments packed into one row, without padding."""
    B, T, H = s.value.shape[:3]
    keep = torch.ones(B, T, dtype=torch.bool) if s.mask is None else s.mask
    ids = torch.zeros(B, T, dtype=torch.int32) if s.segment_ids is None else s.segment_ids
    first = torch.ones(B, T, dtype=torch.bool)
    first[:, 1:] = ids[:, 1:] != ids[:, :-1]
    piece = first.flatten().cumsum(0) - 1
    row_starts = piece.reshape(B, T)[:, 0]
    lengths = torch.zeros(int(piece[-1]) + 1, dtype=torch.int64)
    lengths.index_add_(0, piece, keep.flatten().to(torch.int64))
    state = torch.zeros(len(lengths), H, s.key.shape[-1], s.value.shape[-1])
    if s.initial_state is not None:
        state = state.index_copy(0, row_starts, s.initial_state)
    packed = [x[keep][None] for x in (s.query, s.key, s.value, decay_per_head(s), rate(s))]
    scale = s.query.shape[-1] ** -0.5 if s.scale is None else s.scale
    read, states = naive_recurrent_gated_delta_product(
        *packed,
        scale=scale,
        cu_seqlens=torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]),
        initial_state=state,
        output_final_state=True,
    )
    output = torch.zeros_like(s.value)
    output[keep] = read[0]
    return output, states[piece.reshape(B, T)[:, -1]]
