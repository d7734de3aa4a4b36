"""The verdict: each package against the definition, and each against each other."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from linattn_spec.conformance import Difference, check_case, differences
from linattn_spec.fixtures import Case
from parity.plan import Call, calls, dtype, rule
from parity.results import Outcome, Results

DEFINITION = "definition"


@dataclass(frozen=True)
class Measurement:
    """How far two of them are from each other in one tensor of one call."""

    between: tuple[str, str]
    call: Call
    rule: str
    dtype: str
    tensor: str
    error: float
    tolerance: float

    @property
    def share(self) -> float:
        """The error as a share of its tolerance."""
        return self.error / self.tolerance

    @property
    def excessive(self) -> bool:
        return not self.error <= self.tolerance

    def __str__(self) -> str:
        return (
            f"{' and '.join(self.between)}: {self.call}, {self.tensor}: "
            f"error {self.error:.2e}, tolerance {self.tolerance:.0e}"
        )


@dataclass
class Comparison:
    """Every measurement, and everything that is wrong besides an excessive error."""

    measurements: list[Measurement] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    refusals: int = 0

    @property
    def excesses(self) -> list[Measurement]:
        return [m for m in self.measurements if m.excessive]

    @property
    def passed(self) -> bool:
        return bool(self.measurements) and not self.faults and not self.excesses


def compare(
    cases: Iterable[Case], results: Mapping[str, Results], run: str, fixtures: str
) -> Comparison:
    """Compares the results of each package, all of `run` on the fixtures with this fingerprint."""
    comparison = Comparison()
    plan = dict(calls(cases))
    for name, result in results.items():
        comparison.faults += _provenance_faults(name, result, run, fixtures, set(plan))
    for call, case in plan.items():
        outcomes = {
            name: result.outcomes[call]
            for name, result in results.items()
            if call in result.outcomes
        }
        if case.error is not None:
            comparison.refusals += 1
            comparison.faults += _refusal_faults(call, case, outcomes)
        else:
            comparison.faults += _raised_faults(call, outcomes)
            comparison.faults += _dtype_faults(call, case, outcomes)
            comparison.measurements += _measurements(call, case, outcomes)
    return comparison


def _provenance_faults(
    name: str, result: Results, run: str, fixtures: str, plan: set[Call]
) -> Iterator[str]:
    if result.package != name:
        yield f"{name}: the result is that of {result.package}"
    if result.run != run:
        yield f"{name}: stale result of run {result.run}, this is run {run}"
    if result.fixtures != fixtures:
        yield f"{name}: stale result on fixtures {result.fixtures[:12]}, these are {fixtures[:12]}"
    yield from (f"{name}: skipped {call}" for call in sorted(plan - result.outcomes.keys()))
    yield from (f"{name}: unknown call {call}" for call in sorted(result.outcomes.keys() - plan))


def _raised_faults(call: Call, outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    for name, outcome in outcomes.items():
        if outcome.raised is not None:
            yield f"{name}: {call} raised {': '.join(outcome.raised)}"


def _dtype_faults(call: Call, case: Case, outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    for name, outcome in outcomes.items():
        for tensor in _expected(case):
            x = outcome.tensors.get(tensor)
            if x is not None and x.dtype.name != dtype(case, tensor):
                yield f"{name}: {call}, {tensor} is {x.dtype}, not {dtype(case, tensor)}"


def _refusal_faults(call: Call, case: Case, outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    for name, outcome in outcomes.items():
        try:
            check_case(case, lambda *_, outcome=outcome: _replay(outcome))
        except AssertionError as error:
            yield f"{name}: {call}: {error}"
    for (left, a), (right, b) in combinations(outcomes.items(), 2):
        if a.raised != b.raised:
            yield f"{left} and {right}: {call} is refused in other words: {a.raised}, {b.raised}"


def _replay(outcome: Outcome) -> dict[str, np.ndarray]:
    if outcome.raised is not None:
        name, text = outcome.raised
        raise type(name, (Exception,), {})(text)
    return outcome.tensors


def _measurements(call: Call, case: Case, outcomes: Mapping[str, Outcome]) -> Iterator[Measurement]:
    def measured(left: str, right: str, difference: Difference) -> Measurement:
        return Measurement(
            between=(left, right),
            call=call,
            rule=rule(case),
            dtype=dtype(case, difference.tensor),
            tensor=difference.tensor,
            error=difference.error,
            tolerance=difference.tolerance,
        )

    answered = {name: x.tensors for name, x in outcomes.items() if x.raised is None}
    for name, tensors in answered.items():
        for difference in differences(case, tensors):
            yield measured(DEFINITION, name, difference)
    for (left, a), (right, b) in combinations(answered.items(), 2):
        for difference in _pair_differences(case, a, b):
            yield measured(left, right, difference)


def _pair_differences(
    case: Case, left: Mapping[str, np.ndarray], right: Mapping[str, np.ndarray]
) -> list[Difference]:
    """As if `left` were the definition; each may be off by its tolerance, so both by twice that."""
    names = _expected(case)
    present = {name: left[name].astype(np.float64) for name in names if name in left}
    tolerances = {name: 2 * case.tolerances[name] for name in names}
    as_definition = replace(case, outputs=present, gradients={}, tolerances=tolerances)
    with np.errstate(invalid="ignore"):  # Where both are infinite; it is an excess all the same.
        found = differences(as_definition, right)
    lacking = [name for name in names if name not in left]
    return found + [Difference(name, np.inf, tolerances[name]) for name in lacking]


def _expected(case: Case) -> list[str]:
    return [*case.outputs, *(f"gradient.{name}" for name in case.gradients)]
