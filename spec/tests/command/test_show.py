"""`show` tells all of a case, and prints its tensors exactly."""

import json
import re

import numpy as np
import pytest

from linattn_spec.command import show
from linattn_spec.command.selection import cases_of
from linattn_spec.conformance import flat
from linattn_spec.fixtures import one_of_each_kind
from linattn_spec.safetensors_format import DTYPES

CASES = cases_of("linattn-1")
BY_ID = {case.id: case for case in CASES}


def test_the_printed_call_is_the_call_of_the_case():
    for case in CASES:
        variables = {name.replace(".", "_"): x for name, x in case.inputs.items()}
        given = eval("\n".join(show.call(case)), variables | {case.operator: dict})
        for name in case.arguments:
            assert given.pop(name) == case.arguments[name]
        inputs = flat(given)
        assert inputs.keys() == case.inputs.keys()
        assert all(inputs[name] is case.inputs[name] for name in inputs)


@pytest.mark.filterwarnings("error")
def test_show_tells_all_of_a_case(command):
    parts = next(case for case in CASES if case.parts)
    shown = [*one_of_each_kind(CASES), *(c for c in CASES if c.error)][::7]
    for case in [*shown, parts, next(case for case in CASES if case.tokens)]:
        out, err, code = command("show", case.id)
        assert (err, code) == ("", 0)
        words = " ".join(out.split())
        assert " ".join(case.summary.split()) in words
        assert case.clause in words
        assert all(flag in words for flag in case.flags)
        for name, x in show.tensors(case).items():
            assert f"{name} {x.dtype} {list(x.shape)}" in words
        assert len(re.findall(r", tolerance \S+$", out, re.MULTILINE)) == len(case.tolerances)
        assert case.error is None or all(text in out for text in case.error)
        assert case.parts is None or str(list(case.parts)) in words
        assert case.tokens is None or str(list(case.tokens)) in words


def test_show_says_why_a_tolerance_is_wide(command):
    wide = next(case for case in CASES if case.tolerance_reason)
    assert " ".join(wide.tolerance_reason.split()) in " ".join(command("show", wide.id)[0].split())


def test_small_tensors_are_shown_whole_and_of_others_the_first_elements():
    small, large = np.linspace(0, 1, 60), np.linspace(0, 1, 61)
    assert len(" ".join(show.described("x", small)[1:]).strip("[ ]").split()) == 60
    assert show.described("x", large)[1].endswith(" ...]")
    assert len(show.described("x", large)[1].strip("[ ].").split()) == 8
    assert show.described("x", np.zeros((2, 0))) == ["x  float64 [2, 0], empty"]
    odd = np.array([np.nan, -np.inf, 0.0, 2.5])
    assert show.described("x", odd)[0] == (
        "x  float64 [4], from 0 to 2.5, 1 zero, 1 NaN, 1 infinite"
    )


@pytest.mark.parametrize(
    ("id", "tensor"),
    [
        ("linear-attention-gated-delta-float64", "gradient.log_decay"),
        ("linear-attention-gated-delta-float32", "input.query"),
        ("linear-attention-gated-delta-float16", "input.value"),
        ("linear-attention-gated-delta-bfloat16", "input.key"),
        ("l2-normalize-zero-bfloat16", "input.x"),
    ],
)
def test_a_tensor_is_printed_exactly_in_decimals_and_in_bits(command, id, tensor):
    x = show.tensors(BY_ID[id])[tensor]
    out, _, _ = command("show", id, "--tensor", tensor, "--bits")
    lines = [line.rsplit("  ", 2) for line in out.splitlines()]
    assert [json.loads(index) for index, _, _ in lines] == [list(i) for i in np.ndindex(x.shape)]
    assert {len(word) for _, _, word in lines} == {2 + 2 * x.dtype.itemsize}
    decimals = np.array([float(value) for _, value, _ in lines]).astype(x.dtype)
    bits = np.array([int(word, 16) for _, _, word in lines], f"u{x.dtype.itemsize}").view(x.dtype)
    np.testing.assert_array_equal(decimals.reshape(x.shape), x)
    np.testing.assert_array_equal(bits.reshape(x.shape), x)
    plain, _, _ = command("show", id, "--tensor", tensor)
    assert plain.splitlines() == ["  ".join(line[:2]) for line in lines]


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_every_dtype_can_be_printed(dtype):
    x = np.array([[0, 1, 1]]).astype(dtype)
    head, *values = show.described("input.x", x)
    assert head.startswith(f"input.x  {dtype} [1, 3]")
    assert len(values) == 1
    assert len(list(show.elements(x, bits=True))) == 3
