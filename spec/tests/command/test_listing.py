"""`list` prints exactly the cases, or the flags, that were asked for."""

import json
import re
import sys

import pytest

from linattn_spec.command.selection import cases_of

CASES = cases_of("linattn-1")
ONNX = cases_of("onnx-27")


def test_list_prints_one_line_per_case_and_a_summary(command):
    out, err, code = command("list")
    head, *lines, summary = out.splitlines()
    assert (err, code) == ("", 0)
    assert head.split() == ["id", "operator", "dtype", "sizes", "flags"]
    assert [line.split()[:3] for line in lines] == [[c.id, c.operator, c.dtype] for c in CASES]
    assert all(line.endswith(", ".join(c.flags)) for line, c in zip(lines, CASES, strict=True))
    refused = sum(case.error is not None for case in CASES)
    assert summary == f"{len(CASES)} cases, {refused} of them of calls that must be refused"


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        (["--operator=relu"], lambda c: c.operator == "relu"),
        (["--dtype=float16", "--dtype=bfloat16"], lambda c: c.dtype in ("float16", "bfloat16")),
        (["--flag=padding-decays"], lambda c: "padding-decays" in c.flags),
        (
            ["--without=bad-input", "--dtype=float32"],
            lambda c: c.dtype == "float32" and not c.error,
        ),
        (["--version=onnx-27"], lambda c: c.id in {case.id for case in ONNX}),
    ],
)
def test_filters_let_through_exactly_the_cases_that_are_meant(command, options, passes):
    out, _, _ = command("list", "--json", *options)
    assert [entry["id"] for entry in json.loads(out)] == [c.id for c in CASES if passes(c)]


@pytest.mark.parametrize(
    ("id", "sizes"),
    [
        ("linear-attention-gated-delta-float64", "B2 T11 H1/1/3 D4/5"),
        ("linear-attention-step-gated-delta-float64", "B2 H1/1/3 D4/5"),
        ("invalid-linear-attention-query-rank", "query [7, 6, 4]"),
        ("l2-normalize-usual-float16", "[2, 5, 3, 4]"),
    ],
)
def test_sizes_are_those_of_the_call(command, id, sizes):
    assert f"  {sizes}  " in next(x for x in command("list")[0].splitlines() if x.split()[0] == id)


def test_list_flags_explains_every_flag_and_counts_its_cases(command):
    out, _, _ = command("list", "--flags", "--json")
    entries = json.loads(out)
    assert {e["flag"] for e in entries} == {flag for case in CASES for flag in case.flags}
    assert all(e["cases"] == sum(e["flag"] in case.flags for case in CASES) for e in entries)
    text, _, _ = command("list", "--flags")
    for entry in entries:
        assert re.search(rf"^{entry['flag']} +{entry['cases']}  cases  \S", text, re.MULTILINE)
        assert " ".join(entry["fault"].split()) in " ".join(text.split())


def test_a_terminal_gets_lines_of_its_own_width(command, monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    lines = command("list", "--operator=linear_attention")[0].splitlines()
    assert max(map(len, lines)) == 100
    assert lines[1].endswith("...")
