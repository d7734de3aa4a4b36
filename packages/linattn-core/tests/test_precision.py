"""Every float dtype: what is computed in, what is rounded, and when."""

import ml_dtypes
import numpy as np
import pytest
from problem import MODES, NO_TIME, RULES, cotangents, error, problem

from linattn_core import (
    elu_plus_one,
    kernelized_attention,
    l2_normalize,
    linear_attention,
    linear_attention_step,
    linear_attention_vjp,
    onnx_linear_attention,
    relu,
)
from linattn_spec import linear_attention as definition

NARROW = (np.float16, ml_dtypes.bfloat16)
EIGHT_BITS = (ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn)


def cast(arrays, dtype):
    return {name: x.astype(dtype) for name, x in arrays.items()}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [*NARROW, *EIGHT_BITS])
def test_narrow_floats_are_computed_in_float32_and_rounded_once(dtype, mode):
    inputs = problem(dtype=dtype, T=11)
    arguments = dict(update_rule="gated_delta", execution_mode=mode, chunk_size=4)
    output, state = linear_attention(**inputs, **arguments)
    wide = cast(inputs, np.float32)
    wide_output, wide_state = linear_attention(**wide, **arguments)
    assert output.dtype == dtype
    assert state.dtype == np.float32
    np.testing.assert_array_equal(output, wide_output.astype(dtype))
    np.testing.assert_array_equal(state, wide_state)

    given = cotangents(inputs)
    gradients = linear_attention_vjp(**inputs, **arguments, **given)
    for name, wide_gradient in linear_attention_vjp(**wide, **arguments, **given).items():
        assert gradients[name].dtype == dtype
        np.testing.assert_array_equal(gradients[name], wide_gradient.astype(dtype))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("causal", [False, True])
def test_kernel_attention_maps_in_float32_too(causal, mode):
    inputs = problem("linear", dtype=ml_dtypes.bfloat16, state=False)
    arguments = dict(causal=causal, execution_mode=mode, chunk_size=4)
    output, state = kernelized_attention(**inputs, **arguments)
    wide_output, wide_state = kernelized_attention(**cast(inputs, np.float32), **arguments)
    np.testing.assert_array_equal(output, wide_output.astype(ml_dtypes.bfloat16))
    for part, wide_part in zip(state or (), wide_state or (), strict=True):
        assert part.dtype == np.float32
        np.testing.assert_array_equal(part, wide_part)


@pytest.mark.parametrize("past", [np.float16, ml_dtypes.bfloat16, np.float32, None])
def test_the_packed_form_rounds_the_state_to_its_own_dtype_once(past):
    inputs = problem("gated_delta", dtype=np.float16, Hq=6, Hk=3)
    state = None if past is None else inputs["initial_state"].astype(past)
    arguments = dict(update_rule="gated_delta")
    tokens = {name: x for name, x in inputs.items() if name != "initial_state"}
    _, expected = linear_attention(**tokens, initial_state=state, **arguments)
    packed = {n: tokens[n].reshape(2, 7, -1) for n in ("query", "key", "value")}
    _, got = onnx_linear_attention(
        **packed,
        past_state=state,
        decay=inputs["log_decay"],
        beta=inputs["beta"],
        q_num_heads=6,
        kv_num_heads=3,
    )
    assert got.dtype == (np.float16 if past is None else past)
    np.testing.assert_array_equal(got, expected.astype(got.dtype))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rule", RULES)
def test_long_double_is_computed_in_itself(rule, mode):
    wide = problem(rule, dtype=np.longdouble, T=11)
    wide["value"] += np.finfo(np.longdouble).eps  # not exact in float64
    arguments = dict(update_rule=rule, execution_mode=mode, chunk_size=4)
    output, state = linear_attention(**wide, **arguments)
    assert output.dtype == state.dtype == np.longdouble
    expected, expected_state = linear_attention(**cast(wide, np.float64), **arguments)
    assert error(output, expected) < 1e-14
    assert error(state, expected_state) < 1e-14
    other, _ = linear_attention(**wide, **(arguments | {"execution_mode": MODES[mode == MODES[0]]}))
    apart = np.max(np.abs(output - other)) / np.max(np.abs(output))
    assert apart < 1e4 * np.finfo(np.longdouble).eps


def test_gates_and_states_may_have_other_dtypes_and_keep_them_in_the_gradient():
    dtypes = {
        "query": np.float16,
        "key": np.float16,
        "value": np.float16,
        "log_decay": np.float64,
        "beta": ml_dtypes.bfloat16,
        "initial_state": np.float32,
    }
    exact = problem()
    inputs = {name: exact[name].astype(dtype) for name, dtype in dtypes.items()}
    arguments = dict(update_rule="gated_delta")
    output, state = linear_attention(**inputs, **arguments)
    expected = linear_attention(**cast(inputs, np.float32), **arguments)
    assert (output.dtype, state.dtype) == (np.float16, np.float32)
    np.testing.assert_array_equal(output, expected[0].astype(np.float16))
    np.testing.assert_array_equal(state, expected[1])
    gradients = linear_attention_vjp(**inputs, **arguments, **cotangents(inputs))
    assert {name: x.dtype for name, x in gradients.items()} == dtypes


def test_what_a_masked_wide_gate_holds_does_not_overflow():
    inputs = problem(dtype=np.float32)
    inputs["log_decay"] = inputs["log_decay"].astype(np.float64)
    mask = np.ones((2, 7), bool)
    mask[:, 5:] = False
    arguments = dict(update_rule="gated_delta", mask=mask)
    expected, _ = linear_attention(**inputs, **arguments)
    inputs["log_decay"][:, 5:] = -1e300
    output, _ = linear_attention(**inputs, **arguments)
    np.testing.assert_array_equal(output, expected)


def test_the_state_stays_float32_over_1024_bfloat16_steps():
    sizes = dict(B=1, T=1024, Hq=2, Hk=2, Hv=2)
    inputs = problem("gated", dtype=ml_dtypes.bfloat16, state=False, **sizes)
    inputs["log_decay"][:] = -1e-3
    _, expected = definition(**inputs, update_rule="gated")

    def stream(dtype):
        state = None
        for t in range(1024):
            token = {name: x[:, t] for name, x in inputs.items()}
            _, state = linear_attention_step(**token, state=state, update_rule="gated")
            assert state.dtype == np.float32
            state = state.astype(dtype)
        return state

    assert error(stream(np.float32), expected) < 1e-5
    assert error(stream(ml_dtypes.bfloat16), expected) > 1e-2
    _, state = linear_attention(**inputs, update_rule="gated")
    assert error(state, expected) < 1e-5


@pytest.mark.parametrize("rule", ["linear", "gated_delta"])
def test_long_sequences_do_not_lose_accuracy(rule):
    inputs = problem(rule, dtype=np.float32, B=1, T=4096, Hq=1, Hk=1, Hv=1)
    output, state = linear_attention(**inputs, update_rule=rule)
    expected, expected_state = definition(**inputs, update_rule=rule)
    assert error(output, expected) < 5e-6
    assert error(state, expected_state) < 5e-6


def test_a_long_sequence_read_as_a_whole_does_not_either():
    sizes = dict(B=1, T=4096, Hq=1, Hk=1, Hv=1)
    inputs = problem("linear", dtype=np.float32, state=False, **sizes)
    got, _ = kernelized_attention(**inputs)
    expected, _ = kernelized_attention(**cast(inputs, np.float64))
    assert error(got, expected) < 5e-6


@pytest.mark.parametrize("mode", MODES)
def test_a_scale_and_an_epsilon_are_not_rounded_to_float32(mode):
    inputs = problem("linear")
    output, _ = linear_attention(**inputs, scale=0.1, execution_mode=mode)
    assert error(output, definition(**inputs, scale=0.1)[0]) < 1e-15
    x = np.array([-1.0, 2.0])
    np.testing.assert_array_equal(relu(x, 0.1), np.array([0.0, 2.0]) + 0.1)
    np.testing.assert_allclose(l2_normalize(x, 0.1), x / np.sqrt(5.1), rtol=1e-15)
    tokens = {name: x for name, x in inputs.items() if name not in NO_TIME}
    near, far = (kernelized_attention(**tokens, epsilon=e)[0] for e in (1e-12, 0.0))
    assert 0 < error(near, far) < 1e-10


@pytest.mark.parametrize("dtype", [*NARROW, np.float32, np.float64, np.longdouble])
def test_feature_maps_keep_the_dtype_and_round_once(dtype):
    x = np.array([-20.0, -8.0, -0.5, 0.0, 1.0, 100.0]).astype(dtype)
    wide = x.astype(np.float64)
    expected = np.where(wide > 0, wide + 1, np.exp(np.minimum(wide, 0)))
    got = elu_plus_one(x)
    assert got.dtype == relu(x).dtype == l2_normalize(x).dtype == dtype
    # Half a unit in the last place; below 2**-14 that of float16 is 2**-25 throughout.
    rounding = {np.float16: 2**-11, ml_dtypes.bfloat16: 2**-8, np.float32: 2**-22}
    smallest = 2**-25 if dtype == np.float16 else 0
    np.testing.assert_allclose(
        got.astype(np.float64), expected, rtol=rounding.get(dtype, 1e-15), atol=smallest
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_callable_map_that_widens_does_not_widen_the_results(dtype):
    inputs = problem("linear", dtype=dtype, state=False)
    output, state = kernelized_attention(
        **inputs, causal=True, feature_map=lambda x: np.exp(x * np.longdouble(1))
    )
    expected, _ = kernelized_attention(**inputs, causal=True, feature_map=np.exp)
    assert output.dtype == dtype
    assert [x.dtype for x in state] == [dtype, dtype]
    assert error(output, expected) < {np.float32: 5e-6, np.float64: 1e-12}[dtype]
