"""ONNX's node cases are read as what they are, and judged as ONNX judges them."""

import re
from pathlib import Path

import pytest
from official import accepts, official_cases
from teeth import node_killers, rows

from linattn_spec.conformance import run_case
from linattn_spec.fixtures import load_cases
from linattn_spec.generate.oracle import oracle
from linattn_spec.mutants import MUTANTS, ChunkParallel, Dissected

OFFICIAL = official_cases()


def test_there_are_fourteen():
    assert len({x.case.id for x in OFFICIAL}) == len(OFFICIAL) == 14


@pytest.mark.parametrize(
    "adapter", [oracle, Dissected(), ChunkParallel()], ids=["definition", "tokens", "chunks"]
)
def test_a_correct_implementation_is_accepted_in_all_of_them(adapter):
    assert all(accepts(x, run_case(x.case, adapter)) for x in OFFICIAL)


def test_what_is_off_by_more_than_their_tolerance_in_one_element_is_not_accepted():
    for official in OFFICIAL:
        for name in official.case.outputs:
            results = run_case(official.case, oracle)
            results[name].flat[0] *= 1.01
            assert not accepts(official, results), (official.case.id, name)


def test_they_kill_a_fault_of_the_recurrence_and_none_of_the_gradients():
    assert len(node_killers("read-before-write", OFFICIAL)) == 14
    gradients = [name for name, (_, adapter) in MUTANTS.items() if adapter.in_gradients]
    assert gradients
    assert all(node_killers(name, OFFICIAL) == [] for name in gradients)


def test_the_table_counts_the_killers_of_each_kind():
    examples = [case for case in load_cases() if case.id.startswith("onnx-example-")]
    table = list(rows(examples, OFFICIAL))
    assert table[0].endswith("| 17 fixtures | 17 examples | 14 node cases |")
    assert len(table) == 2 + len(MUTANTS)
    fault, _ = MUTANTS["read-before-write"]
    assert f"| read-before-write | {fault} | 17 | 17 | 14 |" in table


def test_the_readme_counts_the_node_cases_that_kill_each_mutant():
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    counts = dict(re.findall(r"^\| ([a-z0-9-]+) \| .* \| (\d+) \|$", readme, re.M))
    killed = {name: str(len(node_killers(name, OFFICIAL))) for name in MUTANTS}
    assert counts == killed
