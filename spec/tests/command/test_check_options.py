"""The options of `check`, its progress, and what it says to a wrong call."""

import io
import json
import re

import pytest
from adapters import ORACLE, mine

from linattn_spec.command.progress import Progress
from linattn_spec.command.selection import cases_of

CASES = cases_of("linattn-1")
BY_ID = {case.id: case for case in CASES}
CASE = BY_ID["linear-attention-gated-delta-float64"]
FEATURE_MAPS = ("--operator=relu", "--operator=l2_normalize", "--operator=elu_plus_one")
VALUES = "--without=bad-input"


def test_forward_asks_for_no_gradients(command):
    for adapter in ("sees_no_cotangents", "forward_only", "takes_four"):
        out, _, code = command("check", mine(adapter), *FEATURE_MAPS, VALUES, "--forward")
        assert (code, "FAILED" in out) == (0, False)


def test_fail_fast_stops_at_the_first_failure(command):
    out, _, code = command("check", mine("raises"), "--operator=relu", "--fail-fast")
    total = sum(case.operator == "relu" for case in CASES)
    assert code == 1
    assert out.splitlines()[-1] == (
        f"FAILED, stopped at the first failure after 1 of {total} cases: "
        "0 passed, 1 failed, 0 not implemented"
    )


def test_limit_is_the_number_of_failures_printed_in_full(command):
    cases = [case for case in CASES if case.operator == "relu" and not case.error]
    for limit in (0, 2, len(cases)):
        options = ("--operator=relu", VALUES, f"--limit={limit}")
        out, _, _ = command("check", mine("raises"), *options)
        assert out.count("ZeroDivisionError: ") == limit
        assert out.count("more of them in full") == (limit < len(cases))
        assert all(case.id in out for case in cases)


def test_json_holds_every_outcome(command, tmp_path):
    file = tmp_path / "results.json"
    cases = [BY_ID[CASE.id], BY_ID["linear-attention-gated-delta-float32"]]
    chosen = [f"--case={case.id}" for case in cases]
    command("check", mine("not_a_number"), *chosen, "--json", str(file))

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    results = json.loads(file.read_text(), parse_constant=refuse)
    assert (results["passed"], results["failed"], results["not_implemented"]) == (0, 2, 0)
    assert results["complete"] is True
    assert results["flags"][CASE.flags[0]] == {"failed": 2, "ran": 2}
    assert [entry["id"] for entry in results["cases"]] == [case.id for case in cases]
    entry = results["cases"][0]
    assert (entry["verdict"], entry["operator"]) == ("failed", "linear_attention")
    (tensor,) = entry["tensors"]
    assert (tensor["tensor"], tensor["error"], tensor["got"]) == ("output", None, "nan")
    assert (tensor["wrong"], tensor["elements"]) == (330, 330)
    assert tensor["worst"]["got"] is None


def test_an_interrupted_check_reports_what_it_has(command, tmp_path):
    file = tmp_path / "results.json"
    options = (*FEATURE_MAPS, VALUES, "--json", str(file))
    out, _, code = command("check", mine("is_interrupted_in_relu"), *options)
    total = sum(case.operator in ("relu", "l2_normalize", "elu_plus_one") for case in CASES)
    assert code == 130
    assert re.search(
        r"^interrupted after [1-9]\d* of \d+ cases: [1-9]\d* passed, 0 failed", out, re.MULTILINE
    )
    results = json.loads(file.read_text())
    assert results["complete"] is False
    assert 0 < len(results["cases"]) < total


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "--flag=padding-decay"], "no flag 'padding-decay' in linattn-1; did you mean "),
        (["list", "--dtype=float8"], "no dtype 'float8' in linattn-1; did you mean float"),
        (["list", "--version=onnx-26"], "version must be one of ['linattn-1', 'onnx-27', "),
        (["list", "--operator=relu", "--flag=segment-leak"], "no case of linattn-1 passes all "),
        (["show", "relu-usual-float31"], "no case 'relu-usual-float31' in linattn-1; did you "),
        (["show", CASE.id, "--tensor=query"], f"{CASE.id} has no tensor 'query'; did you mean "),
        (["show", CASE.id, "--bits"], "--bits needs --tensor NAME"),
        (["check", ORACLE, "--case=relu"], "no case 'relu' in linattn-1; did you mean relu-"),
        (["check", "no_such.f"], "cannot import no_such: ModuleNotFoundError: No module named "),
        (["check", "json.no_such"], "module json has no no_such"),
        (["check", "json"], "'json' is not module.function or module:function"),
        (["check", "json.__doc__"], "json.__doc__ is no function but str"),
        (
            ["check", mine("takes_two")],
            f"{mine('takes_two')}(operator, inputs) cannot be called as ",
        ),
        (
            ["check", mine("takes_two"), "--forward"],
            f"{mine('takes_two')}(operator, inputs) cannot ",
        ),
        (
            ["check", mine("forward_only")],
            f"{mine('forward_only')}(operator, inputs, arguments) can",
        ),
        (
            ["check", mine("returns_a_tuple")],
            f"{mine('returns_a_tuple')} must return a dict of arr",
        ),
        (["check", ORACLE, "--json=/no/such/file"], "cannot write /no/such/file: No such file"),
    ],
)
def test_a_wrong_call_gets_one_clear_message(command, arguments, message):
    out, err, code = command(*arguments)
    assert (out, code) == ("", 2)
    assert err.startswith(f"python -m linattn_spec: {message}")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("arguments", [[], ["check"], ["check", ORACLE, "--limit=-1"], ["lst"]])
def test_a_call_that_cannot_be_read_exits_with_2(command, arguments):
    out, err, code = command(*arguments)
    assert (out, code) == ("", 2)
    assert err.startswith("usage: python -m linattn_spec")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_one_line_on_a_terminal_and_ten_lines_elsewhere(monkeypatch):
    monkeypatch.setattr("linattn_spec.command.progress._SECONDS_BETWEEN_DRAWINGS", 0.0)
    for stream in (Terminal(), io.StringIO()):
        progress = Progress(200, stream)
        for done in range(200):
            progress.starts(f"case-{done}", done, 1)
            progress.ended(done + 1, 1)
        progress.clear()
        text = stream.getvalue()
        if stream.isatty():
            assert "\n" not in text
            assert "\r150 of 200, 1 failed: case-150" in text
            assert text.rsplit("\r", 2)[1].strip() == ""
        else:
            lines = [f"{done} of 200 cases, 1 failed" for done in range(20, 201, 20)]
            assert text.splitlines() == lines
