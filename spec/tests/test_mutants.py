"""The fixtures catch every planted fault, and nothing but the fault."""

import re
from pathlib import Path

import pytest

from linattn_spec.conformance import check_case
from linattn_spec.fixtures import load_cases
from linattn_spec.mutants import MUTANTS, ChunkParallel, Dissected, killers

CASES = load_cases()
VALUE_CASES = [case for case in CASES if case.error is None]
README = Path(__file__).parents[1] / "README.md"
LISTED = {
    name: (fault, int(count))
    for name, fault, count in re.findall(
        r"^\| (\S+) \| (.+) \| (\d+) \|$", README.read_text(), re.M
    )
}


@pytest.mark.parametrize("unmutated", [Dissected(), ChunkParallel()], ids=["tokens", "chunks"])
def test_the_implementation_that_is_mutated_passes_every_value_case(unmutated):
    assert VALUE_CASES
    for case in VALUE_CASES:
        check_case(case, unmutated)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_at_least_two_cases_kill_the_mutant_and_as_many_as_the_readme_says(mutant):
    ids = killers(mutant, CASES)
    assert len(ids) >= 2, f"{MUTANTS[mutant][0]} Killed by {ids}."
    fault, count = LISTED[mutant]
    assert fault == MUTANTS[mutant][0]
    # A case at the edge of its tolerance may fall either way on another machine.
    assert len(ids) == pytest.approx(count, abs=1, rel=0.02)


def test_the_readme_lists_mutants_that_exist():
    assert list(LISTED) == list(MUTANTS)


def test_there_are_at_least_twenty_mutants_with_a_fault_of_their_own():
    assert len(MUTANTS) >= 20
    assert len({fault for fault, _ in MUTANTS.values()}) == len(MUTANTS)


def test_every_operator_has_a_mutant():
    operators = {name for _, adapter in MUTANTS.values() for name in adapter.operators}
    assert operators == {case.operator for case in VALUE_CASES}
