"""Each function of a peer on each problem that it can express, and what is to be said of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from linattn_spec.arrays import Arrays
from linattn_spec.conformance import Adapter, Difference, differences, run_case
from linattn_spec.fixtures import Case
from linattn_spec.generate.oracle import oracle
from second_opinions.functions import Function
from second_opinions.problems import with_oracle
from second_opinions.sequence import CALL, as_sequence, common_name


@dataclass(frozen=True)
class Answer:
    """What a function made of a problem, or what it raised."""

    function: Function
    case: Case
    results: Arrays
    raised: str | None = None


@dataclass(frozen=True)
class Measurement:
    """How far a result is from the definition's. `known` is the fault that excuses it, if any."""

    function: str
    rule: str
    case: str
    tensor: str
    difference: Difference
    known: str | None

    @property
    def share(self) -> float:
        """The error as a share of its limit."""
        return self.difference.error / self.difference.tolerance

    @property
    def excused(self) -> bool:
        return self.difference.excessive and self.known is not None

    @property
    def unexpected(self) -> bool:
        return self.difference.excessive and self.known is None

    def __str__(self) -> str:
        return f"{self.function}: {self.case}: {self.difference}"


@dataclass
class Comparison:
    """Every measurement, and the known faults that a problem no longer shows."""

    measurements: list[Measurement] = field(default_factory=list)
    vanished: list[str] = field(default_factory=list)

    @property
    def unexpected(self) -> list[Measurement]:
        return [m for m in self.measurements if m.unexpected]

    @property
    def passed(self) -> bool:
        return bool(self.measurements) and not self.unexpected and not self.vanished


def ask(functions: Iterable[Function], case: Case) -> Iterator[Answer]:
    """The answers of all functions that can express the problem."""
    for function in functions:
        if function.can_express(case):
            share = function.share_of(case)
            try:
                yield Answer(function, share, run_case(share, function.adapter))
            except Exception as error:  # whatever a peer may raise is its answer
                yield Answer(function, share, {}, f"{type(error).__name__}: {error}")


def judge(answers: Iterable[Answer], definition: Adapter = oracle) -> Comparison:
    """Compares answers with what `definition` says of the same problems."""
    comparison = Comparison()
    solved: dict[tuple[str, bool, bool], Case] = {}
    for answer in answers:
        function, case = answer.function, answer.case
        key = case.id, function.differentiable, function.returns_state
        if key not in solved:
            solved[key] = with_oracle(case, definition)
        found = list(_measurements(answer, solved[key]))
        comparison.measurements += found
        disagree = {m.tensor for m in found if m.difference.excessive}
        comparison.vanished += [
            f"{function.name}: {case.id} agrees, in spite of: {known.reason}"
            for known in function.known
            if known.shows(case) and not disagree & known.tensors
        ]
    return comparison


def _measurements(answer: Answer, case: Case) -> Iterator[Measurement]:
    function = answer.function
    rule = as_sequence(case.operator, case.inputs, case.arguments).update_rule
    faults = [known for known in function.known if known.shows(case)]
    for difference in _differences(answer, case):
        tensor = common_name(difference.tensor)
        known = next((k.reason for k in faults if tensor in k.tensors), None)
        yield Measurement(function.name, rule, case.id, tensor, difference, known)


def _differences(answer: Answer, case: Case) -> Iterator[Difference]:
    if answer.raised is not None:
        yield Difference(CALL, np.inf, 0.0, (), "results", answer.raised)
        return
    added = answer.function.rounding(case)
    for difference in differences(case, answer.results):
        state = common_name(difference.tensor) == "final_state"
        if answer.function.returns_state or not state:
            yield replace(difference, tolerance=difference.tolerance + added)
