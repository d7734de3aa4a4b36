"""What a chunk-parallel function loses where it takes decays from differences of cumulative sums.

The decay from token j to token i of a chunk is exp(G_i - G_j), G the sum of the log decays since
the chunk began. G is rounded relative to its own size, so the decay is wrong by that rounding,
however small the difference. The definition multiplies one decay after the other and loses nothing.
"""

from collections.abc import Iterator

import numpy as np

from linattn_spec.arrays import Array
from linattn_spec.fixtures import Case
from linattn_spec.tolerances import UNIT_ROUNDOFF
from second_opinions.functions import Known, calls
from second_opinions.sequence import CALL, RESULTS, as_sequence

_ROUNDOFF = UNIT_ROUNDOFF["float32"]
# Beyond this a sum has too few digits left for its rounding to be a limit: it is a fault, ABSORBED.
_ABSORBING = 1e5


def rounding(case: Case) -> float:
    """The relative error of such a decay: half a unit of the largest G, in G_i and in G_j."""
    sums = [float(np.max(-np.sum(g, axis=1, dtype=float))) for g in _chunks(case)]
    return 2 * _ROUNDOFF * max((x for x in sums if x < _ABSORBING), default=0.0)


def _chunks(case: Case) -> Iterator[Array]:
    """The log decays `[B, C, ...]` of each chunk that has any."""
    s = as_sequence(case.operator, case.inputs, case.arguments)
    if s.log_decay is not None and s.log_decay.size:
        for first in range(0, s.log_decay.shape[1], s.chunk_size):
            yield s.log_decay[:, first : first + s.chunk_size]


def _some_infinite(case: Case) -> bool:
    return any(np.isneginf(g).any() for g in _chunks(case))


def _some_absorbed(case: Case) -> bool:
    """A sum that is so large that it rounds away a decay that would leave most of the state."""
    return any(((g.min(1) < -_ABSORBING) & (g.max(1) > -1)).any() for g in _chunks(case))


def _gate_gradient_is_small(case: Case) -> bool:
    """Every decay is less than the rounding of a 1, or some values are far louder than others."""
    chunks = list(_chunks(case))
    return bool(chunks) and (all(g.max() < np.log(_ROUNDOFF) for g in chunks) or _some_loud(case))


def _some_loud(case: Case) -> bool:
    s = as_sequence(case.operator, case.inputs, case.arguments)
    loudness = np.max(np.abs(s.value), axis=(0, 2, 3))
    return bool(loudness.max() > 100 * loudness.min())


def _some_overflow(case: Case) -> bool:
    """Some G_j - G_i with j < i, which the causal mask is to hide, is beyond float32's exp."""
    limit = np.log(np.finfo(np.float32).max)
    sums = (np.sum(g[:, 1:], axis=1, dtype=float) for g in _chunks(case))
    return not _some_infinite(case) and any((-total > limit).any() for total in sums)


def _no_rows(case: Case) -> bool:
    return case.inputs["query"].shape[0] == 0


def _no_tokens(case: Case) -> bool:
    s = as_sequence(case.operator, case.inputs, case.arguments)
    return 0 in calls(case, s)


INFINITE = Known(
    "a log decay of -inf makes G_i - G_j a difference of infinities: NaN",
    shows=_some_infinite,
    tensors=RESULTS,
)
ABSORBED = Known(
    "a log decay of -1e7 in G rounds away the decays of -1e-3 that come after it",
    shows=_some_absorbed,
    tensors=RESULTS,
)
CANCELS = Known(
    "the gradient of a gate is a difference of sums: it cancels where it is small beside them",
    shows=_gate_gradient_is_small,
    tensors=frozenset({"gradient.log_decay"}),
)
OVERFLOWS = Known(
    "exp before the causal mask: where a chunk decays by more than exp(-88), gradients are 0 * inf",
    shows=_some_overflow,
    tensors=frozenset(f"gradient.{name}" for name in ("query", "key", "log_decay", "beta")),
)
NO_ROWS = Known(
    "a batch of 0 raises: a reshape leaves an axis open, which has no answer for no elements",
    shows=_no_rows,
    tensors=frozenset({CALL}),
)
NO_TOKENS = Known(
    "a call with 0 tokens raises, for the same reason",
    shows=_no_tokens,
    tensors=frozenset({CALL}),
)
