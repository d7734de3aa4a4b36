"""The fixtures catch every planted fault, nothing but the fault, and no case catches nothing."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from linattn_spec.conformance import check_case
from linattn_spec.fixtures import load_cases
from linattn_spec.mutants import (
    MUTANTS,
    Checked,
    ChunkParallel,
    Dissected,
    killers,
    kills,
    length,
    markdown,
    matrix,
    transposed,
    tried,
)
from linattn_spec.mutants import __main__ as command

CASES = {case.id: case for case in load_cases()}
VALUE_CASES = {id: case for id, case in CASES.items() if case.error is None}
REFUSED_CASES = {id: case for id, case in CASES.items() if case.error is not None}
EXAMPLES = [case for id, case in CASES.items() if id.startswith("onnx-example-")]
README = Path(__file__).parents[1] / "README.md"
# Every refused call kills these two, which is no merit of the call.
BLANKET = {"nothing-checked", "errors-without-details"}
LISTED = {
    name: (fault, int(everywhere), int(examples))
    for name, fault, everywhere, examples in re.findall(
        r"^\| ([a-z0-9-]+) \| ([^|]+\.) \| (\d+) \| (\d+) \|", README.read_text(), re.M
    )
}


@pytest.mark.parametrize("id", VALUE_CASES)
def test_what_is_mutated_passes_the_case(id):
    case = VALUE_CASES[id]
    outputs = replace(case, cotangents={}, gradients={})
    # Token by token, the reverse pass of 65,536 of them takes a quarter of a minute.
    check_case(case if length(case) <= 2048 else outputs, Dissected())
    # The reverse pass of these is the same, and no mutant of theirs is tried on more tokens.
    if length(case) <= ChunkParallel.longest:
        check_case(outputs, ChunkParallel())
        check_case(outputs, Checked())


@pytest.mark.parametrize("id", REFUSED_CASES)
def test_the_checks_that_are_mutated_refuse_the_call(id):
    check_case(REFUSED_CASES[id], Checked())


@pytest.mark.parametrize("mutant", MUTANTS)
def test_at_least_two_cases_kill_the_mutant_and_as_many_as_the_readme_says(mutant):
    ids = killers(mutant, CASES.values())
    assert len(ids) >= 2, f"{MUTANTS[mutant][0]} Killed by {ids}."
    fault, everywhere, examples = LISTED[mutant]
    assert fault == MUTANTS[mutant][0]
    # A case at the edge of its tolerance may fall either way on another machine.
    assert len(ids) == pytest.approx(everywhere, abs=1, rel=0.02)
    assert sum(case.id in ids for case in EXAMPLES) == pytest.approx(examples, abs=1)


@pytest.mark.parametrize("id", CASES)
def test_the_case_kills_a_mutant(id):
    case = CASES[id]
    adapters = [adapter for name, (_, adapter) in MUTANTS.items() if name not in BLANKET]
    assert any(tried(case, adapter) and kills(case, adapter) for adapter in adapters)


@pytest.mark.parametrize("id", REFUSED_CASES)
def test_the_refused_call_is_refused_by_checks_and_in_its_own_words(id):
    for mutant in BLANKET:
        assert killers(mutant, [REFUSED_CASES[id]]) == [id]


def test_the_readme_lists_the_mutants():
    assert list(LISTED) == list(MUTANTS)


def test_there_are_at_least_a_hundred_mutants_with_a_fault_of_their_own():
    assert len(MUTANTS) >= 100
    assert len({fault for fault, _ in MUTANTS.values()}) == len(MUTANTS)


def test_every_operator_has_mutants_that_compute_and_mutants_that_check():
    for in_checks in (False, True):
        adapters = [x for _, x in MUTANTS.values() if x.in_checks == in_checks]
        operators = {name for adapter in adapters for name in adapter.operators}
        assert operators == {case.operator for case in CASES.values()}


def test_the_table_has_a_column_for_each_set_of_cases():
    few = {"examples": EXAMPLES[:2], "none": []}
    header, rule, *rows = markdown(few).splitlines()
    assert header == "| mutant | fault | examples | none |"
    assert rule == "| --- | --- | --- | --- |"
    counts = [len(killers(name, EXAMPLES[:2])) for name in MUTANTS]
    assert max(counts) == 2
    assert [row.split(" | ")[2:] for row in rows] == [[str(n), "0 |"] for n in counts]


def test_the_command_prints_the_table_and_writes_the_matrix(tmp_path, monkeypatch, capsys):
    cases = [REFUSED_CASES["invalid-relu-x-int32"], *EXAMPLES[:2]]
    monkeypatch.setattr(command, "load_cases", lambda: cases)
    command.main(["--matrix", str(tmp_path / "matrix.json")])
    assert capsys.readouterr().out.strip() == markdown(
        {"all fixtures": cases, "2 ONNX examples": EXAMPLES[:2]}
    )
    written = json.loads((tmp_path / "matrix.json").read_text())
    killed_by = matrix(cases)
    assert written == {"killed_by": killed_by, "kills": transposed(killed_by, cases)}


def test_the_matrix_says_what_kills_what_in_both_directions():
    cases = EXAMPLES[:3]
    killed_by = matrix(cases)
    assert killed_by == {name: killers(name, cases) for name in MUTANTS}
    pairs = {(name, id) for name, ids in killed_by.items() for id in ids}
    turned = transposed(killed_by, cases)
    assert list(turned) == [case.id for case in cases]
    assert pairs == {(name, id) for id, names in turned.items() for name in names}


def test_a_mutant_is_tried_only_where_its_fault_can_show():
    _, adapter = MUTANTS["bfloat16-as-float16"]
    on = [case for case in CASES.values() if tried(case, adapter)]
    assert {case.dtype for case in on} == {"bfloat16"}
    assert {case.operator for case in on} <= set(adapter.operators)
    assert max(length(case) for case in on) <= adapter.longest
