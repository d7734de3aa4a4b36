"""What a peer's function is: what it can express, how it is called, what it gets wrong."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from linattn_spec.conformance import Adapter
from linattn_spec.fixtures import Case
from linattn_spec.linear_attention import UPDATE_RULES
from second_opinions.sequence import Sequence, as_sequence

RULES = frozenset(UPDATE_RULES)


@dataclass(frozen=True)
class Known:
    """A fault of the peer.

    Attributes:
        reason: what goes wrong, and why.
        shows: whether a problem brings it out. Each such problem must, in one of `tensors`.
        tensors: the results that it may spoil, by their names in RESULTS, or CALL if it raises.
    """

    reason: str
    shows: Callable[[Case], bool]
    tensors: frozenset[str]


@dataclass(frozen=True)
class Function:
    """One function of a peer, as an adapter (linattn_spec.conformance).

    Attributes:
        takes: what it can express, in the words of `needs`.
        differentiable: whether its gradients are compared.
        returns_state: whether its state is.
        rounding: what its arithmetic adds to the limits of a problem.
        known: its faults.
    """

    name: str
    takes: frozenset[str]
    adapter: Adapter
    differentiable: bool = True
    returns_state: bool = True
    rounding: Callable[[Case], float] = lambda case: 0.0
    known: tuple[Known, ...] = ()

    def can_express(self, case: Case) -> bool:
        return needs(case) <= self.takes

    def share_of(self, case: Case) -> Case:
        """The part of the problem that it can answer."""
        cotangents = case.cotangents if self.differentiable else {}
        if not self.returns_state:
            cotangents = {n: c if n == "output" else 0 * c for n, c in cotangents.items()}
        return replace(case, cotangents=cotangents)


def needs(case: Case) -> set[str]:
    """What a function must have for `case`: its rule, and whatever not all functions have."""
    s = as_sequence(case.operator, case.inputs, case.arguments)
    Hq, Hk, Hv = (x.shape[2] for x in (s.query, s.key, s.value))
    present = {
        s.update_rule: True,
        "per-key decay": s.log_decay is not None and s.log_decay.ndim == 4,
        "initial state": s.initial_state is not None or len(calls(case, s)) > 1,
        "scale": s.scale is not None,
        "scale of zero": s.scale == 0.0,
        "mask": s.mask is not None,
        "segments": s.segment_ids is not None,
        "shared keys": Hk < Hv,
        "shared values": Hv < Hq,
        "empty calls": s.query.shape[0] == 0 or 0 in calls(case, s),
        "part of a chunk": any(T % s.chunk_size for T in calls(case, s)),
    }
    return {word for word, needed in present.items() if needed}


def calls(case: Case, sequence: Sequence) -> tuple[int, ...]:
    """How many tokens each call of the problem has; most are one call."""
    return case.parts or sequence.query.shape[1:2]
