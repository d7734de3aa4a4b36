"""The parity command passes what is right and catches what is wrong, on small made-up results."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from linattn_spec.fixtures import Case, load_cases
from parity.cells import cells
from parity.compare import compare
from parity.heatmap import draw
from parity.plan import DTYPES, RULES, Call, calls, dtype, rule
from parity.report import show, write_json
from parity.results import Outcome, ResultError, Results, discard, load, save

RUN, FIXTURES = "this run", "these fixtures"
VALUE = Case(
    id="value",
    summary="",
    flags=(),
    clause="",
    operator="linear_attention",
    dtype="float64",
    arguments={"update_rule": "gated"},
    inputs={"query": np.ones((2, 3))},
    outputs={"output": np.arange(6.0).reshape(2, 3), "final_state": np.zeros((2, 1))},
    gradients={"query": np.linspace(-1, 1, 6).reshape(2, 3)},
    tolerances={"output": 1e-12, "final_state": 1e-12, "gradient.query": 1e-12},
)
REFUSAL = replace(
    VALUE,
    id="refusal",
    operator="relu",
    arguments={},
    outputs={},
    gradients={},
    error=("TypeError", "^x must be a float, got int32$"),
)
CASES = (VALUE, REFUSAL)
CALL = Call("value", "parallel")
REFUSED = Call("refusal", "auto")


@pytest.fixture
def results():
    """Three packages that agree to the last bit with the definition and in their words."""
    return {name: _intact(name) for name in ("numpy", "torch", "jax")}


def _intact(name):
    refusal = Outcome(raised=("TypeError", "x must be a float, got int32"))
    outcomes = {
        call: refusal if case.error else Outcome(_oracle(case)) for call, case in calls(CASES)
    }
    return Results(name, RUN, FIXTURES, {}, outcomes)


def _oracle(case):
    tensors = case.outputs | {f"gradient.{name}": x for name, x in case.gradients.items()}
    return {name: x.copy() for name, x in tensors.items()}


def _compared(results):
    return compare(CASES, results, RUN, FIXTURES)


def _with_tensor(result, name, tensor):
    tensors = result.outcomes[CALL].tensors | {name: tensor}
    return replace(result, outcomes=result.outcomes | {CALL: Outcome(tensors)})


def test_another_dtype_than_promised_fails(results):
    output = VALUE.outputs["output"].astype(np.float32)
    results["torch"] = _with_tensor(results["torch"], "output", output)
    (fault,) = _compared(results).faults
    assert fault == "torch: value, parallel, output is float32, not float64"


def test_intact_results_pass(results):
    comparison = _compared(results)
    assert comparison.passed
    # 3 tensors in 2 modes, by 3 packages and 3 pairs; the refusal has no tensor.
    assert len(comparison.measurements) == 3 * 2 * (3 + 3)
    assert comparison.refusals == 1


@pytest.mark.parametrize("name", ["output", "final_state", "gradient.query"])
def test_one_wrong_number_fails_against_the_definition_and_in_every_pair(results, name):
    wrong = results["torch"].outcomes[CALL].tensors[name].copy()
    wrong[1, 0] += 1e-10
    results["torch"] = _with_tensor(results["torch"], name, wrong)
    comparison = _compared(results)
    assert not comparison.passed
    assert {m.between for m in comparison.excesses} == {
        ("definition", "torch"),
        ("numpy", "torch"),
        ("torch", "jax"),
    }
    assert {(m.call, m.tensor) for m in comparison.excesses} == {(CALL, name)}


def test_two_packages_within_tolerance_on_opposite_sides_pass(results):
    output = VALUE.outputs["output"]
    for name, sign in (("numpy", 1), ("torch", -1)):
        shifted = output + sign * 0.9e-12 * output.max()
        results[name] = _with_tensor(results[name], "output", shifted)
    comparison = _compared(results)
    assert comparison.passed
    assert max(m.error for m in comparison.measurements) > 1e-12


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("packages", [("torch",), ("numpy", "torch", "jax")])
def test_a_number_that_is_not_finite_fails_also_when_all_have_it(results, value, packages):
    wrong = VALUE.outputs["output"].copy()
    wrong[0, 1] = value
    for name in packages:
        results[name] = _with_tensor(results[name], "output", wrong)
    comparison = _compared(results)
    assert {("definition", name) for name in packages} <= {m.between for m in comparison.excesses}


@pytest.mark.parametrize("shape", [(3, 2), (6,), (2, 3, 1), (1, 3)])
def test_a_wrong_shape_fails(results, shape):
    results["jax"] = _with_tensor(results["jax"], "output", np.resize(np.arange(6.0), shape))
    between = {m.between for m in _compared(results).excesses}
    assert between == {("definition", "jax"), ("numpy", "jax"), ("torch", "jax")}


@pytest.mark.parametrize("name", ["output", "final_state", "gradient.query"])
@pytest.mark.parametrize("package", ["numpy", "jax"])
def test_a_missing_tensor_fails(results, package, name):
    del results[package].outcomes[CALL].tensors[name]
    between = {m.between for m in _compared(results).excesses}
    assert len(between) == 3
    assert all(package in pair for pair in between)


@pytest.mark.parametrize("call", [CALL, Call("value", "recurrent"), REFUSED])
def test_a_skipped_call_fails(results, call):
    del results["numpy"].outcomes[call]
    assert _compared(results).faults == [f"numpy: skipped {call}"]


def test_a_call_that_is_not_of_the_plan_fails(results):
    results["numpy"].outcomes[Call("value", "auto")] = results["numpy"].outcomes[CALL]
    assert _compared(results).faults == ["numpy: unknown call value"]


def test_a_stale_run_fails(results):
    results["jax"] = replace(results["jax"], run="an earlier run")
    (fault,) = _compared(results).faults
    assert fault.startswith("jax: stale result of run an earlier run")


def test_other_fixtures_fail(results):
    results["jax"] = replace(results["jax"], fixtures="other fixtures")
    (fault,) = _compared(results).faults
    assert fault.startswith("jax: stale result on fixtures")


def test_the_result_of_another_package_fails(results):
    results["jax"] = results["numpy"]
    assert _compared(results).faults == ["jax: the result is that of numpy"]


def test_a_value_case_that_raises_fails(results):
    results["torch"].outcomes[CALL] = Outcome(raised=("RuntimeError", "no kernel"))
    assert _compared(results).faults == ["torch: value, parallel raised RuntimeError: no kernel"]


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome({"output": np.zeros(1)}),
        Outcome(raised=("ValueError", "x must be a float, got int32")),
        Outcome(raised=("TypeError", "x must be a float, got torch.int32")),
    ],
    ids=["accepted", "class", "text"],
)
def test_a_refusal_that_is_none_or_in_other_words_fails(results, outcome):
    results["torch"].outcomes[REFUSED] = outcome
    faults = _compared(results).faults
    assert sum(fault.startswith("torch: refusal") for fault in faults) == 1
    assert sum("is refused in other words" in fault for fault in faults) == 2


def test_no_results_at_all_do_not_pass():
    assert not _compared({}).passed


def test_results_are_read_as_they_were_written(results, tmp_path):
    save(results["torch"], tmp_path)
    read = load("torch", tmp_path)
    assert compare(CASES, {"torch": read}, RUN, FIXTURES).passed
    assert read.outcomes[REFUSED] == results["torch"].outcomes[REFUSED]
    assert (read.run, read.fixtures) == (RUN, FIXTURES)


def test_an_absent_result_is_an_error(results, tmp_path):
    save(results["torch"], tmp_path)
    discard("torch", tmp_path)
    with pytest.raises(ResultError, match="no result"):
        load("torch", tmp_path)


def test_tensors_of_another_run_are_an_error(results, tmp_path):
    save(_with_tensor(results["torch"], "output", np.zeros((2, 3))), tmp_path)
    other = (tmp_path / "torch.safetensors").read_bytes()
    save(results["torch"], tmp_path)
    (tmp_path / "torch.safetensors").write_bytes(other)
    with pytest.raises(ResultError, match="not those that belong"):
        load("torch", tmp_path)


@pytest.mark.parametrize("keep", [0, 10, -1])
def test_a_truncated_description_is_an_error(results, tmp_path, keep):
    save(results["torch"], tmp_path)
    path = tmp_path / "torch.json"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ResultError, match="damaged result"):
        load("torch", tmp_path)


@pytest.mark.parametrize("broken", [False, True])
def test_the_reports_show_a_fault_and_write_valid_json(results, tmp_path, broken):
    if broken:
        wrong = _with_tensor(results["torch"], "output", np.full((2, 3), np.nan))
        results["torch"] = wrong
    comparison = _compared(results)
    filled = cells(comparison.measurements)
    console = Console(record=True, width=120, file=io.StringIO())
    show(comparison, filled, results, console)
    write_json(comparison, filled, results, RUN, FIXTURES, tmp_path / "results.json")
    draw(filled, results, tmp_path / "heatmap.png")
    text = console.export_text()
    assert ("✗ definition and torch: value, parallel, output" in text) is broken
    document = json.loads((tmp_path / "results.json").read_text(), parse_constant=pytest.fail)
    assert document["passed"] is not broken
    assert len(document["cells"]) == 6
    assert (tmp_path / "heatmap.png").read_bytes().startswith(b"\x89PNG")


def test_the_worst_cell_is_the_largest_error_of_its_rule_and_dtype(results):
    for name, error in (("output", 5e-13), ("gradient.query", 3e-13)):
        oracle = _oracle(VALUE)[name]
        results["jax"] = _with_tensor(results["jax"], name, oracle + error * oracle.max())
    cell = cells(_compared(results).measurements)["gated", "float64", ("definition", "jax")]
    assert (cell.worst.call, cell.worst.tensor) == (CALL, "output")
    assert cell.worst.error == pytest.approx(5e-13, rel=0.01)


def test_every_fixture_is_called_in_each_of_its_modes_and_has_a_row():
    cases = load_cases()
    modes = {case.id: set() for case in cases}
    for call, case in calls(cases):
        modes[case.id].add(call.mode)
        if case.error is None:
            assert rule(case) in RULES
            assert {dtype(case, name) for name in case.tolerances} <= set(DTYPES)
    for case in cases:
        has_modes = case.operator in ("linear_attention", "kernelized_attention")
        one = not has_modes or "execution_mode" in case.arguments  # the case says in which
        assert modes[case.id] == ({"auto"} if one else {"recurrent", "parallel"})
