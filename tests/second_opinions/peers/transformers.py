"""Transformers: the eager functions of its gated delta models, PyTorch, float32 inside.

Where flash-linear-attention is installed they call its kernels instead; here it must not be.
Qwen3-Next has one decay per head and fewer query and key heads than value heads, Kimi Linear a
decay per key. Both scale by Dk ** -0.5 and lay the state out as [B, H, Dk, Dv].
"""

from functools import partial
from typing import Any

import torch
from transformers.models.kimi_linear import modeling_kimi_linear as kimi
from transformers.models.qwen3_next import modeling_qwen3_next as qwen

from second_opinions import chunks, planted
from second_opinions.autograd import adapter, decay_per_head, decay_per_key, rate
from second_opinions.functions import Function
from second_opinions.sequence import Sequence

DISTRIBUTIONS = ("transformers", "torch")
PLANTED = (*planted.OUTPUTS, *planted.GRADIENTS)


def _per_head(function: Any, s: Sequence, **options: Any) -> Any:
    return _call(function, s, decay_per_head(s), **options)


def _per_key(function: Any, s: Sequence, **options: Any) -> Any:
    return _call(function, s, decay_per_key(s), **options)


def _in_chunks(translation: Any, function: Any, s: Sequence) -> Any:
    return translation(function, s, chunk_size=s.chunk_size)


def _call(function: Any, s: Sequence, decay: torch.Tensor, **options: Any) -> Any:
    given = {"initial_state": s.initial_state, "output_final_state": True} | options
    return function(s.query, s.key, s.value, g=decay, beta=rate(s), **given)


_COMMON = frozenset(
    {
        "delta",
        "gated_delta",
        "shared keys",
        "shared values",
        "initial state",
        "part of a chunk",
        "empty calls",
    }
)

FUNCTIONS = (
    Function(
        name="qwen3_next.torch_recurrent_gated_delta_rule",
        takes=_COMMON,
        adapter=adapter(
            partial(_per_head, qwen.torch_recurrent_gated_delta_rule), shares_keys=True
        ),
    ),
    Function(
        name="qwen3_next.torch_chunk_gated_delta_rule",
        takes=_COMMON,
        adapter=adapter(
            partial(_in_chunks, _per_head, qwen.torch_chunk_gated_delta_rule), shares_keys=True
        ),
        rounding=chunks.rounding,
        known=(chunks.INFINITE, chunks.ABSORBED, chunks.CANCELS, chunks.NO_ROWS),
    ),
    Function(
        name="kimi_linear.recurrent_kimi_delta_attention",
        takes=_COMMON | {"per-key decay"},
        adapter=adapter(partial(_per_key, kimi.recurrent_kimi_delta_attention)),
    ),
    Function(
        name="kimi_linear.chunk_kimi_delta_attention",
        takes=_COMMON | {"per-key decay"},
        adapter=adapter(partial(_in_chunks, _per_key, kimi.chunk_kimi_delta_attention)),
        rounding=chunks.rounding,
        known=(chunks.INFINITE, chunks.ABSORBED, chunks.CANCELS, chunks.NO_ROWS),
    ),
)
