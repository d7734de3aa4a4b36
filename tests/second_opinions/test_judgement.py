"""The verdict, on functions whose faults are known: it needs no peer."""

from dataclasses import replace

import numpy as np
import pytest

from linattn_spec.conformance import Adapter
from linattn_spec.fixtures import Case
from linattn_spec.generate.oracle import oracle
from linattn_spec.mutants import MUTANTS
from second_opinions.compare import Comparison, ask, judge
from second_opinions.functions import RULES, Function, Known, needs
from second_opinions.planted import contradictions
from second_opinions.problems import problems
from second_opinions.sequence import CALL, RESULTS

TAKES = RULES | {"initial state", "part of a chunk"}


@pytest.fixture(scope="module")
def case() -> Case:
    """Gated delta with a state, a decay per head and gradients."""
    wanted = {"gated_delta", "initial state", "part of a chunk"}
    return next(c for c in problems() if needs(c) == wanted and c.id.startswith("drawn"))


def verdict(case: Case, adapter: Adapter, *known: Known, **options: bool) -> Comparison:
    function = Function("function", TAKES, adapter, known=known, **options)
    return judge(ask([function], case))


def known(shows: bool, *tensors: str) -> Known:
    return Known("a fault", lambda case: shows, frozenset(tensors))


def raises(*arguments: object) -> dict[str, np.ndarray]:
    raise RuntimeError("no")


def test_the_definition_agrees_with_itself_in_every_result(case):
    comparison = verdict(case, oracle)
    assert comparison.passed
    assert {m.tensor for m in comparison.measurements} == RESULTS


@pytest.mark.parametrize("name", ["decay-after-write", "final-state-gradient-dropped"])
def test_a_wrong_function_is_unexpected(case, name):
    assert verdict(case, MUTANTS[name][1]).unexpected


def test_a_function_that_raises_is_unexpected(case):
    (measurement,) = verdict(case, raises).unexpected
    assert "RuntimeError: no" in str(measurement)


def test_a_known_fault_is_excused_where_it_shows_and_nowhere_else(case):
    wrong = MUTANTS["final-state-gradient-dropped"][1]
    assert verdict(case, wrong, known(True, *RESULTS)).passed
    assert not verdict(case, wrong, known(True, "output")).passed
    assert not verdict(case, wrong, known(False, *RESULTS)).passed
    assert verdict(case, raises, known(True, CALL)).passed


def test_a_known_fault_that_vanished_fails(case):
    comparison = verdict(case, oracle, known(True, *RESULTS))
    assert not comparison.unexpected
    assert comparison.vanished
    assert not comparison.passed


def test_nothing_compared_is_not_a_pass(case):
    padded = replace(
        case, inputs=case.inputs | {"mask": np.ones(case.inputs["beta"].shape[:2], bool)}
    )
    assert not verdict(padded, oracle).measurements
    assert not verdict(padded, oracle).passed


def test_a_function_without_gradients_or_state_is_compared_in_the_rest(case):
    comparison = verdict(case, oracle, differentiable=False, returns_state=False)
    assert [m.tensor for m in comparison.measurements] == ["output"]
    assert comparison.passed


def test_a_function_is_asked_for_nothing_that_it_cannot_express(case):
    function = Function("function", RULES, raises)
    assert not list(ask([function], case))


def test_a_planted_fault_is_contradicted_and_a_missing_one_is_not(case):
    answers = list(ask([Function("function", TAKES, oracle)], case))
    assert contradictions(["decay-after-write"], answers)["decay-after-write"] == 2
    assert contradictions(["scale-ignored"], answers) == {"scale-ignored": 0}


def test_problems_are_float32_and_have_ids_of_their_own():
    found = list(problems())
    assert len({case.id for case in found}) == len(found)
    for case in found:
        floats = {x.dtype for x in case.inputs.values() if x.dtype.kind not in "bi"}
        assert floats == {np.dtype("float32")}
