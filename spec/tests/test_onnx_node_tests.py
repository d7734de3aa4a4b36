"""The fixtures in the terms of the ONNX operator: the same mathematics, rounded once."""

import sys
from dataclasses import replace
from functools import cache
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

from linattn_spec import onnx_node_tests
from linattn_spec.fixtures import load_cases
from linattn_spec.onnx_node_tests import obstacle
from linattn_spec.onnx_node_tests.__main__ import main
from linattn_spec.onnx_node_tests.node_test import INPUTS, LONGEST, rounded

node_test = cache(onnx_node_tests.node_test)
CASES = load_cases()
EXPRESSIBLE = [case for case in CASES if obstacle(case) is None]
BY_ID = {case.id: case for case in CASES}
UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
GATED_DELTA = BY_ID["linear-attention-gated-delta-float32"]


def test_every_value_case_of_the_operator_is_expressed_unless_it_is_too_long():
    own = [case for case in CASES if case.operator == "onnx_linear_attention" and not case.error]
    assert len(own) > 30
    for case in own:
        assert (obstacle(case) is None) == (case.inputs["query"].shape[1] <= LONGEST), case.id


@pytest.mark.parametrize("case", EXPRESSIBLE, ids=lambda case: case.id)
def test_the_calls_expect_what_the_fixture_expects(case):
    test = node_test(case)
    output = np.concatenate([call.outputs["output"] for call in test.calls], axis=1)
    if case.tokens is not None:
        output = output[:, list(case.tokens)]
    (state,) = case.outputs.keys() - {"output"}
    results = {"output": output, state: test.calls[-1].outputs["present_state"]}
    printed = case.id.startswith("onnx-example-")
    for name, result in results.items():
        oracle = case.outputs[name]
        x = result.astype(np.float64).reshape(oracle.shape)
        size = np.max(np.abs(oracle), initial=0)
        if printed or case.parts is not None:
            allowed = case.tolerances[name] * size
        else:
            subnormal = float(ml_dtypes.finfo(result.dtype).smallest_subnormal)
            allowed = UNIT[str(result.dtype)] * np.abs(oracle) + 1e-12 * size + subnormal / 2
        assert np.all(np.abs(x - oracle) <= allowed), name


@pytest.mark.parametrize("case", EXPRESSIBLE, ids=lambda case: case.id)
def test_the_calls_are_as_the_operator_types_them(case):
    test = node_test(case)
    q_heads, kv_heads = (test.attributes[name] for name in ("q_num_heads", "kv_num_heads"))
    assert q_heads % kv_heads == 0
    assert test.attributes.get("scale", 0.0) == np.float32(test.attributes.get("scale", 0.0))
    for call in test.calls:
        assert list(call.inputs) == [name for name in INPUTS if name in call.inputs]
        B, T, width = call.inputs["query"].shape
        Dk, Dv = width // q_heads, call.inputs["value"].shape[2] // kv_heads
        allowed = {
            "query": [(B, T, q_heads * Dk)],
            "key": [(B, T, kv_heads * Dk)],
            "value": [(B, T, kv_heads * Dv)],
            "past_state": [(B, kv_heads, Dk, Dv)],
            "decay": [(B, T, kv_heads), (B, T, kv_heads * Dk)],
            "beta": [(B, T, kv_heads), (B, T, 1)],
        }
        assert all(x.shape in allowed[name] for name, x in call.inputs.items())
        T_dtypes = {x.dtype for name, x in call.inputs.items() if name != "past_state"}
        assert T_dtypes == {call.outputs["output"].dtype} == {np.dtype(case.dtype)}
        past = call.inputs.get("past_state", call.inputs["query"])
        assert call.outputs["present_state"].dtype == past.dtype


def test_every_part_starts_from_the_state_that_the_part_before_returns():
    in_parts = [case for case in EXPRESSIBLE if case.parts is not None]
    assert in_parts
    for case in in_parts:
        calls = node_test(case).calls
        assert tuple(call.inputs["query"].shape[1] for call in calls) == case.parts
        for before, call in pairwise(calls):
            np.testing.assert_array_equal(
                call.inputs["past_state"], before.outputs["present_state"]
            )


def test_a_head_that_value_heads_share_is_written_once_for_each_of_them():
    case = BY_ID["linear-attention-gated-delta-grouped-values-3-float32"]
    (call,) = node_test(case).calls
    Hv = case.inputs["value"].shape[2]
    for name in ("query", "key"):
        shared = case.inputs[name]
        B, T, H, Dk = shared.shape
        assert 1 < H < Hv
        written = call.inputs[name].reshape(B, T, Hv, Dk)
        for h in range(Hv):
            np.testing.assert_array_equal(written[:, :, h], shared[:, :, h * H // Hv])


def test_a_step_is_a_call_of_one_token():
    steps = [case for case in EXPRESSIBLE if case.operator == "linear_attention_step"]
    assert steps
    for case in steps:
        (call,) = node_test(case).calls
        assert call.inputs["query"].shape[1] == 1
        np.testing.assert_array_equal(call.inputs["past_state"], case.inputs["state"])


def test_a_scale_is_what_a_node_holds_of_it_and_the_results_follow():
    case = replace(GATED_DELTA, arguments=GATED_DELTA.arguments | {"scale": 0.1})
    test, exact = node_test(case), node_test(GATED_DELTA)
    assert test.attributes["scale"] == float(np.float32(0.1))
    Dk = case.inputs["query"].shape[3]
    np.testing.assert_allclose(
        test.calls[0].outputs["output"],
        exact.calls[0].outputs["output"] * np.sqrt(Dk) * 0.1,
        rtol=1e-6,
    )


def _given(**inputs):
    return replace(GATED_DELTA, inputs=GATED_DELTA.inputs | inputs)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (BY_ID["invalid-linear-attention-key-t"], "a call that is refused"),
        (BY_ID["elu-plus-one-usual-float32"], "another operator"),
        (BY_ID["linear-attention-gated-delta-float64"], "float64"),
        (_given(mask=np.ones((2, 11), bool)), "mask"),
        (_given(segment_ids=np.zeros((2, 11), np.int32)), "segment_ids"),
        (_given(beta=np.ones((2, 11, 3), np.float16)), "gates in a dtype of their own"),
        (_given(query=np.ones((2, LONGEST + 1, 1, 4), np.float32)), "more than 4096 tokens"),
        (
            replace(GATED_DELTA, arguments=GATED_DELTA.arguments | {"scale": 0.0}),
            "scale 0.0, which the operator takes for its default",
        ),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_the_operator_cannot_express_is_named(case, reason):
    assert obstacle(case) == reason


@pytest.mark.parametrize(
    ("x", "nearest"),
    [
        (1 + 2.0**-8, 1.0),  # a tie, to even
        (1 + 3 * 2.0**-8, 1 + 2.0**-6),  # a tie, to even
        (1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-7),  # a tie as a float32
        (1 + 3 * 2.0**-8 - 2.0**-40, 1 + 2.0**-7),
        (-1 - 2.0**-8 - 2.0**-40, -1 - 2.0**-7),
        (2.0**-133 * (0.5 + 2.0**-40), 2.0**-133),
        (2.0**-134, 0.0),
        (0.0, 0.0),
        (1.5, 1.5),
    ],
)
def test_bfloat16_is_rounded_once(x, nearest):
    result = rounded(np.array([x]), np.dtype(ml_dtypes.bfloat16))
    assert result.dtype == ml_dtypes.bfloat16
    assert float(result[0]) == nearest


def test_no_other_bfloat16_is_nearer():
    x = np.random.default_rng(0).standard_normal(20_000)
    dtype = np.dtype(ml_dtypes.bfloat16)
    result = rounded(x, dtype)
    for step in (-1, 1):
        neighbour = (result.view(np.int16) + np.int16(step)).view(dtype)
        assert np.all(
            np.abs(result.astype(np.float64) - x) <= np.abs(neighbour.astype(np.float64) - x)
        )


def test_the_command_says_what_to_install_where_onnx_is_not(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "linattn_spec.onnx_node_tests.write", raising=False)
    with pytest.raises(SystemExit, match="2"):
        main([str(tmp_path / "new")])
    assert "pip install linattn-spec[onnx]" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_the_command_writes_into_no_directory_that_holds_anything(tmp_path, capsys):
    (tmp_path / "file").write_text("kept")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(SystemExit, match="2"):
            main([str(path)])
        assert "is not an empty directory" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "kept"
