"""flash-linear-attention: its reference functions, PyTorch, float32 inside."""

import numpy as np

from linattn_spec.fixtures import Case
from second_opinions import chunks, planted
from second_opinions.autograd import adapter
from second_opinions.functions import Function, Known
from second_opinions.peers import fla_calls as calls
from second_opinions.sequence import RESULTS, as_sequence

DISTRIBUTIONS = ("fla-core", "triton", "torch")
PLANTED = (*planted.OUTPUTS, *planted.SCALE, *planted.GRADIENTS, *planted.PADDING)


def _reads_a_decayed_state(case: Case) -> bool:
    """Whether some key reads what an earlier one wrote, or the initial state."""
    s = as_sequence(case.operator, case.inputs, case.arguments)
    keys = s.key.swapaxes(1, 2)
    earlier = np.tril(keys @ keys.swapaxes(2, 3), -1)
    given = s.initial_state is not None and s.key.size > 0 and s.initial_state.any()
    return s.update_rule == "gated_delta" and bool(earlier.any() or given)


_READS_BEFORE_DECAY = Known(
    "the chunked reference takes the error before the state decays, the recurrent one after",
    shows=_reads_a_decayed_state,
    tensors=RESULTS,
)

_DELTA = frozenset({"delta", "gated_delta"})
_GATED = frozenset({"linear", "gated"})
_HEADS = frozenset({"shared keys", "shared values"})
_ANY = _HEADS | {"part of a chunk"}
_STATE = frozenset({"initial state"})
_SCALE = frozenset({"scale", "scale of zero"})
_KEYS = frozenset({"per-key decay"})
_EMPTY = frozenset({"empty calls"})
_CHUNK_FAULTS = (chunks.INFINITE, chunks.ABSORBED, chunks.CANCELS)
_IN_CHUNKS = {"rounding": chunks.rounding, "known": _CHUNK_FAULTS}

FUNCTIONS = (
    Function(
        "linear_attn.naive_recurrent_linear_attn",
        _ANY | _STATE | _SCALE | _EMPTY | {"linear"},
        adapter(calls.recurrent_linear),
    ),
    Function(
        "linear_attn.naive_chunk_linear_attn",
        _HEADS | _SCALE | {"linear"},
        adapter(calls.chunk_linear),
        returns_state=False,
    ),
    Function(
        "simple_gla.naive_recurrent_simple_gla",
        _GATED | _ANY | _STATE | _SCALE | _EMPTY,
        adapter(calls.recurrent_simple_gla),
    ),
    Function(
        "simple_gla.naive_chunk_simple_gla",
        _GATED | _ANY | _STATE | _SCALE | _EMPTY,
        adapter(calls.chunk_simple_gla),
        **_IN_CHUNKS,
    ),
    Function(
        "simple_gla.naive_parallel_simple_gla",
        _GATED | _ANY | _SCALE | _EMPTY,
        adapter(calls.parallel_simple_gla),
        returns_state=False,
        **_IN_CHUNKS,
    ),
    Function(
        "gla.naive_recurrent_gla",
        _GATED | _ANY | _STATE | _KEYS | _EMPTY,
        adapter(calls.recurrent_gla),
    ),
    Function(
        "delta_rule.delta_rule_recurrence",
        _ANY | _STATE | _EMPTY | {"delta"},
        adapter(calls.recurrent_delta),
    ),
    Function(
        "delta_rule.delta_rule_chunkwise",
        _HEADS | {"delta"},
        adapter(calls.chunk_delta),
    ),
    Function(
        "delta_rule.delta_rule_parallel",
        _HEADS | {"delta"},
        adapter(calls.parallel_delta),
        returns_state=False,
    ),
    Function(
        "gated_delta_rule.naive_recurrent_gated_delta_rule",
        _DELTA | _ANY | _STATE | _SCALE | _EMPTY,
        adapter(calls.recurrent_gated_delta),
    ),
    Function(
        "gated_delta_rule.naive_chunk_gated_delta_rule",
        _DELTA | _ANY | _STATE | _SCALE | _EMPTY,
        adapter(calls.chunk_gated_delta),
        **_IN_CHUNKS,
    ),
    Function(
        "gated_delta_product.naive_recurrent_gated_delta_product",
        _DELTA | _ANY | _STATE | _SCALE | {"mask", "segments"},
        adapter(calls.packed_gated_delta_product),
    ),
    Function(
        "kda.naive_recurrent_kda",
        _DELTA | _ANY | _STATE | _SCALE | _KEYS | _EMPTY,
        adapter(calls.recurrent_kda, shares_keys=True),
    ),
    Function(
        "kda.naive_chunk_kda",
        _DELTA | _HEADS | _STATE | _SCALE | _KEYS,
        adapter(calls.chunk_kda, shares_keys=True),
        rounding=chunks.rounding,
        known=(*_CHUNK_FAULTS, chunks.OVERFLOWS),
    ),
    Function(
        "comba.naive_recurrent_comba",
        _DELTA | _ANY | _STATE | _SCALE | _EMPTY,
        adapter(calls.recurrent_comba),
    ),
    Function(
        "comba.naive_chunk_comba",
        _DELTA | _ANY | _STATE | _SCALE | _EMPTY,
        adapter(calls.chunk_comba),
        rounding=chunks.rounding,
        known=(*_CHUNK_FAULTS, _READS_BEFORE_DECAY),
    ),
    Function(
        "gdn2.naive_recurrent_gdn2",
        _DELTA | _ANY | _STATE | _SCALE | _KEYS | _EMPTY,
        adapter(calls.recurrent_gdn2),
    ),
    Function(
        "gdn2.naive_chunk_gdn2",
        _DELTA | _ANY | _STATE | _SCALE | _KEYS | _EMPTY,
        adapter(calls.chunk_gdn2),
        rounding=chunks.rounding,
        known=(*_CHUNK_FAULTS, chunks.OVERFLOWS, chunks.NO_ROWS, chunks.NO_TOKENS),
    ),
)
