"""`check` passes what is right, and says of what is wrong what, where and by how much."""

import json
import re
import textwrap
from dataclasses import replace

import numpy as np
import pytest
from adapters import ORACLE, mine

from linattn_spec.command.outcome import outcome
from linattn_spec.command.selection import cases_of
from linattn_spec.command.wrong import ranges
from linattn_spec.generate.oracle import oracle

CASES = cases_of("linattn-1")
CASE = next(case for case in CASES if case.id == "linear-attention-gated-delta-float64")
FEATURE_MAPS = ("--operator=relu", "--operator=l2_normalize", "--operator=elu_plus_one")
VALUES = "--without=bad-input"


def test_a_right_implementation_passes(command):
    cases = [case for case in cases_of("onnx-27") if not case.error]
    out, err, code = command("check", ORACLE, "--version=onnx-27", VALUES)
    assert code == 0
    assert out.splitlines()[-1] == f"PASSED: {len(cases)} passed, 0 failed, 0 not implemented"
    assert err.splitlines()[-1] == f"{len(cases)} of {len(cases)} cases, 0 failed"


REPORT = """\
linear-attention-gated-delta-float64
  Rule gated_delta over three chunks, the last one short, from a given state.
  linear_attention(beta, initial_state, key, log_decay, query, value, update_rule='gated_delta',
  chunk_size=4), float64
{flags}
  final_state: 3 of 120 elements wrong, error {error:.2e}, tolerance 1.0e-12
    worst [1, 0, 0, 0]  expected {worst}  got -100
    first [0, 2, 3, 1]  expected {first}  got 8
    then  [1, 0, 0, 0]  expected {worst}  got -100
    then  [1, 2, 2, 4]  expected {third}  got 3
    wrong on axis 1 only at 0, 2; axis 2 only at 0, 2-3; axis 3 only at 0-1, 4

operator          dtype    passed  failed  not implemented
linear_attention  float64       0       1                0
all                             0       1                0

likely fault: the flags whose cases failed most often
{likely}
smallest failed case: linear-attention-gated-delta-float64

FAILED: 0 passed, 1 failed, 0 not implemented
"""


def test_a_wrong_one_fails_and_is_told_what_where_and_by_how_much(command):
    flags = {e["flag"]: e for e in json.loads(command("list", "--flags", "--json")[0])}
    out, _, code = command("check", mine("three_wrong"), "--case", CASE.id)
    expected = CASE.outputs["final_state"]
    values = [expected[index] for index in ((1, 0, 0, 0), (0, 2, 3, 1), (1, 2, 2, 4))]
    texts = [f"{value:.17g}" for value in values]
    worst, first, third = (text.ljust(max(map(len, texts))) for text in texts)
    likely = []
    for name in sorted(CASE.flags):
        likely.append(f"  {name}: 1 of 1 failed ({flags[name]['report']})")
        likely += textwrap.wrap(flags[name]["fault"], 100, **margin(4))
    explained = (f"{name} ({flags[name]['report']}): {flags[name]['fault']}" for name in CASE.flags)
    assert code == 1
    assert out == REPORT.format(
        flags="\n".join("\n".join(textwrap.wrap(text, 100, **margin(2))) for text in explained),
        error=(values[0] + 100) / np.max(np.abs(expected)),
        worst=worst,
        first=first,
        third=third,
        likely="\n".join(likely),
    )


def margin(width):
    return {"initial_indent": " " * width, "subsequent_indent": " " * width}


def test_a_tensor_that_is_missing_misshapen_or_not_a_number_fails(command):
    out, _, code = command("check", mine("no_state"), "--case", CASE.id)
    assert code == 1
    assert "  output: expected shape [2, 11, 3, 5], got shape [1, 2, 11, 3, 5]\n" in out
    assert "  final_state: expected shape [2, 3, 4, 5], got nothing\n" in out
    assert "  The adapter returned output, gradients.\n" in out
    out, _, code = command("check", mine("not_a_number"), "--case", CASE.id)
    assert code == 1
    assert "  output: 330 of 330 elements wrong, error inf, tolerance 1.0e-12\n" in out
    assert out.count("got nan\n") == 4


def test_of_a_case_with_tokens_the_indices_are_those_of_the_whole_sequence():
    outputs = {"output": CASE.outputs["output"][:, [0, 7]]}
    case = replace(CASE, tokens=(0, 7), outputs=outputs, gradients={}, cotangents={})

    def adapter(*call):
        results = oracle(*call)
        results["output"][1, 7, 2, 3] += 1
        return results

    (tensor,) = outcome(case, adapter).tensors
    assert tensor.worst.index == (1, 7, 2, 3)
    assert tensor.first[0].index == (1, 7, 2, 3)
    assert "axis 1 only at 7" in tensor.lies


@pytest.mark.parametrize("name", ["output", "gradient.beta"])
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_elements_are_wrong_exactly_where_they_exceed_the_tolerance(name, factor):
    def adapter(*call):
        x = oracle(*call)
        allowed = CASE.tolerances[name] * np.max(np.abs(x[name]))
        x[name] = x[name].copy()
        x[name][0, 0, 0] += factor * allowed
        return x

    found = outcome(CASE, adapter)
    assert found.verdict == ("passed" if factor < 1 else "failed")
    assert sum(tensor.count for tensor in found.tensors) == (
        0 if factor < 1 else (5 if name == "output" else 1)
    )


def test_the_likely_fault_is_the_planted_one(command):
    flags = ("padding-decays", "state-one-token", "scale-replaced", "short-sequence")
    options = [f"--flag={flag}" for flag in flags]
    out, _, code = command(
        "check",
        mine("ignores_the_mask"),
        "--forward",
        "--operator=linear_attention",
        *options,
    )
    assert code == 1
    likely = out[out.index("likely fault: ") :].splitlines()
    assert likely[1].startswith("  padding-decays: ")


def test_what_is_not_implemented_is_counted_apart(command):
    out, _, code = command("check", mine("lacks_relu_and_float16"), *FEATURE_MAPS, VALUES)
    assert code == 0
    assert re.search(r"^relu +float32 +0 +0 +1$", out, re.MULTILINE)
    lacking = sum(
        (case.operator, case.dtype) == ("l2_normalize", "float16") and not case.error
        for case in CASES
    )
    assert re.search(rf"^l2_normalize +float16 +0 +0 +{lacking}$", out, re.MULTILINE)
    assert re.search(r"^ +\d+  relu: no reason given$", out, re.MULTILINE)
    assert re.search(rf"^ +{lacking}  l2_normalize: float16$", out, re.MULTILINE)
    cases = [c for c in CASES if c.operator in ("l2_normalize", "elu_plus_one") and not c.error]
    passed = sum(case.dtype != "float16" for case in cases)
    assert f"PASSED: {passed} passed, 0 failed, " in out


@pytest.mark.parametrize("what", [VALUES, "--flag=bad-input"])
def test_an_implementation_of_nothing_does_not_pass(command, what):
    out, _, code = command("check", mine("lacks_everything"), "--operator=relu", what)
    assert code == 1
    assert re.search(r"^NOTHING TESTED: 0 passed, 0 failed, [1-9]\d* not impl", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("adapter", "text"),
    [("raises", "ZeroDivisionError: in the third kernel"), ("exits", "SystemExit: 0")],
)
def test_what_the_adapter_raises_is_a_failure_of_the_case(command, adapter, text):
    out, _, code = command("check", mine(adapter), "--operator=relu", VALUES)
    assert code == 1
    assert f"\n  {text}\n" in out
    assert f", in {adapter}\n" in out
    assert re.search(r"^FAILED: 0 passed, [1-9]\d* failed", out, re.MULTILINE)


def test_a_call_that_must_be_refused_fails_unless_it_is(command):
    out, _, code = command("check", mine("raises"), "--operator=relu", "--flag=bad-input")
    assert code == 1
    assert "  expected TypeError matching '^x must have a floating-point dtype" in out
    assert "  got ZeroDivisionError: in the third kernel\n" in out
    assert "checked --without bad-input." in " ".join(out.split())
    out, _, code = command("check", mine("accepts_all"), "--operator=relu", "--flag=bad-input")
    assert code == 1
    assert "  got no error\n" in out


def test_ranges_are_short():
    assert ranges([0, 2, 3, 4, 9]) == "0, 2-4, 9"
    assert ranges(list(range(0, 40, 2))) == "0, 2, 4, 6, 8, 10, 12, 14, ..."
