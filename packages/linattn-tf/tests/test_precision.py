"""Every float dtype: what is computed in, what is rounded, and when."""

import numpy as np
import pytest
import tensorflow as tf
from problem import loss_gradients, problem

from linattn_spec import linear_attention as definition
from linattn_tf import (
    elu_plus_one,
    kernelized_attention,
    l2_normalize,
    linear_attention,
    linear_attention_step,
    relu,
)

NARROW = (tf.float16, tf.bfloat16)
MODES = ("parallel", "recurrent")


def error(got, expected):
    got = np.asarray(tf.cast(got, tf.float64))
    return np.abs(got - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", NARROW, ids=lambda d: d.name)
def test_half_precision_is_computed_in_float32_and_rounded_once(dtype, mode):
    inputs = problem(dtype=dtype, T=11)
    arguments = dict(update_rule="gated_delta", execution_mode=mode, chunk_size=4)
    output, state = linear_attention(**inputs, **arguments)
    wide = {name: tf.cast(x, tf.float32) for name, x in inputs.items()}
    wide_output, wide_state = linear_attention(**wide, **arguments)
    assert output.dtype == dtype
    assert state.dtype == tf.float32
    np.testing.assert_array_equal(output, tf.cast(wide_output, dtype))
    np.testing.assert_array_equal(state, wide_state)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", NARROW, ids=lambda d: d.name)
def test_gradients_have_the_dtype_of_their_input(dtype, mode):
    inputs = problem(dtype=dtype)
    inputs["initial_state"] = tf.cast(inputs["initial_state"], tf.float32)
    inputs["log_decay"] = tf.cast(inputs["log_decay"], tf.float64)
    _, _, gradients = loss_gradients(
        linear_attention, inputs, update_rule="gated_delta", execution_mode=mode
    )
    assert {n: g.dtype for n, g in gradients.items()} == {n: x.dtype for n, x in inputs.items()}
    assert all(np.isfinite(tf.cast(g, tf.float32)).all() for g in gradients.values())


@pytest.mark.parametrize("dtype", ["float8_e5m2", "float8_e4m3fn"])
def test_eight_bit_floats_are_computed_in_float32(dtype):
    inputs = {name: tf.cast(x, dtype) for name, x in problem(T=5).items()}
    output, state = linear_attention(**inputs, update_rule="gated_delta")
    wide = {name: tf.cast(x, tf.float32) for name, x in inputs.items()}
    expected, expected_state = linear_attention(**wide, update_rule="gated_delta")
    assert output.dtype == dtype
    np.testing.assert_array_equal(
        tf.cast(output, tf.float32), tf.cast(tf.cast(expected, dtype), tf.float32)
    )
    np.testing.assert_array_equal(state, expected_state)


def test_the_state_stays_float32_over_1024_bfloat16_steps():
    B, T, H, Dk, Dv = 1, 1024, 2, 4, 5
    inputs = problem("gated", dtype=tf.bfloat16, B=B, T=T, Hq=H, Hk=H, Hv=H, Dk=Dk, Dv=Dv)
    del inputs["initial_state"]
    inputs["log_decay"] = tf.fill([B, T, H], tf.constant(-1e-3, tf.bfloat16))

    @tf.function
    def step(tokens, state):
        return linear_attention_step(**tokens, state=state, update_rule="gated")

    state = tf.zeros([B, H, Dk, Dv])
    for t in range(T):
        _, state = step({name: x[:, t] for name, x in inputs.items()}, state)
    exact = {name: np.asarray(tf.cast(x, tf.float64)) for name, x in inputs.items()}
    _, expected = definition(**exact, update_rule="gated")
    assert state.dtype == tf.float32
    assert error(state, expected) < 1e-5
    _, state = linear_attention(**inputs, update_rule="gated")
    assert error(state, expected) < 1e-5


@pytest.mark.parametrize("rule", ["linear", "gated_delta"])
def test_long_sequences_do_not_lose_accuracy(rule):
    inputs = problem(rule, dtype=tf.float32, B=1, T=4096, Hq=1, Hk=1, Hv=1)
    output, state = linear_attention(**inputs, update_rule=rule)
    exact = {name: x.numpy().astype(np.float64) for name, x in inputs.items()}
    expected, expected_state = definition(**exact, update_rule=rule)
    assert error(output, expected) < 5e-6
    assert error(state, expected_state) < 5e-6


@pytest.mark.parametrize("mode", MODES)
def test_a_python_scale_and_epsilon_are_not_rounded_to_float32(mode):
    inputs = problem("linear")
    output, _ = linear_attention(**inputs, scale=0.1, execution_mode=mode)
    arrays = {name: x.numpy() for name, x in inputs.items()}
    assert error(output, definition(**arrays, scale=0.1)[0]) < 1e-15
    x = tf.constant([-1.0, 2.0], tf.float64)
    np.testing.assert_array_equal(relu(x, 0.1), np.array([0.0, 2.0]) + 0.1)
    np.testing.assert_allclose(l2_normalize(x, 0.1), x / np.sqrt(5.1), rtol=1e-15)
    tokens = {n: x for n, x in inputs.items() if n != "initial_state"}
    near, far = (kernelized_attention(**tokens, epsilon=e)[0] for e in (1e-12, 0.0))
    assert 0 < error(near, far.numpy()) < 1e-10


@pytest.mark.parametrize("dtype", [*NARROW, tf.float32, tf.float64], ids=lambda d: d.name)
def test_feature_maps_keep_the_dtype_and_round_once(dtype):
    x = tf.cast(tf.constant([-20.0, -8.0, -0.5, 0.0, 1.0, 100.0]), dtype)
    wide = tf.cast(x, tf.float64).numpy()
    expected = np.where(wide > 0, wide + 1, np.exp(np.minimum(wide, 0)))
    assert elu_plus_one(x).dtype == dtype
    got = np.asarray(tf.cast(elu_plus_one(x), tf.float64))
    rounding = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 1e-6, "float64": 1e-15}
    smallest = 2**-24 if dtype == tf.float16 else 0.0
    np.testing.assert_allclose(got, expected, rtol=rounding[dtype.name], atol=smallest)


def test_the_gradient_of_elu_plus_one_is_finite_and_exact_on_both_sides():
    x = tf.constant([-20.0, -1.0, 0.0, 1.0, 1000.0], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = elu_plus_one(x)
    np.testing.assert_allclose(tape.gradient(y, x), np.exp(np.minimum(x, 0)), rtol=1e-15)


def test_the_gradient_of_l2_normalize_is_finite_at_zero():
    x = tf.zeros([2, 3])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = l2_normalize(x)
    np.testing.assert_allclose(tape.gradient(y, x), np.full([2, 3], 1e3), rtol=1e-5)
