"""Which dtype is computed in, how it comes back, and what long sequences do to it."""

import os
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from problem import CHUNK, MODES, RULES, assert_close, draw, expected

import linattn_jax

NARROW = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]


def rounded(inputs, dtype):
    return {name: jnp.asarray(x, dtype) for name, x in inputs.items()}


def wide(inputs):
    return {name: np.asarray(x).astype(np.float64) for name, x in inputs.items()}


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("mode", MODES)
def test_narrow_floats_are_computed_in_float32_and_rounded_once(mode, dtype):
    inputs = rounded(draw(), dtype)
    output, state = linattn_jax.linear_attention(
        **inputs, update_rule="gated_delta", execution_mode=mode, chunk_size=CHUNK
    )
    exact_output, exact_state = expected(wide(inputs))
    assert output.dtype == dtype
    assert state.dtype == "float32"
    assert_close(state, exact_state, 5e-6)
    assert_close(output.astype("float64"), exact_output, float(ml_dtypes.finfo(dtype).eps))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rule", RULES)
def test_float64_and_float32_stay_what_they_are(rule, dtype):
    inputs = rounded(draw(rule), dtype)
    output, state = linattn_jax.linear_attention(**inputs, update_rule=rule, chunk_size=CHUNK)
    assert output.dtype == state.dtype == dtype
    tolerance = {"float64": 1e-12, "float32": 5e-6}[dtype]
    assert_close((output, state), expected(wide(inputs), rule), tolerance)


def test_gates_and_state_may_have_other_dtypes_than_the_query():
    inputs = rounded(draw(), "bfloat16")
    for name, dtype in (
        ("log_decay", "float64"),
        ("beta", "float16"),
        ("initial_state", "float32"),
    ):
        inputs[name] = inputs[name].astype(dtype)
    output, state = linattn_jax.linear_attention(**inputs, update_rule="gated_delta")
    assert output.dtype == "bfloat16"
    assert_close(state, expected(wide(inputs))[1], 5e-6)


@pytest.mark.parametrize("mode", MODES)
def test_1024_bfloat16_steps_keep_a_float32_state(mode):
    inputs = draw("gated", batch=1, tokens=1024)
    inputs["log_decay"] = np.full_like(inputs["log_decay"], -1e-3)
    inputs = rounded(inputs, "bfloat16")
    _, state = linattn_jax.linear_attention(**inputs, update_rule="gated", execution_mode=mode)
    assert_close(state, expected(wide(inputs), "gated")[1], 1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_4096_float32_tokens_are_as_good_as_few(rule):
    inputs = rounded(draw(rule, batch=1, tokens=4096), "float32")
    got = linattn_jax.linear_attention(**inputs, update_rule=rule)
    assert_close(got, expected(wide(inputs), rule), 5e-6)


def test_results_hold_without_64_bit_types():
    script = Path(__file__).with_name("without_x64.py")
    environment = {name: x for name, x in os.environ.items() if name != "XLA_FLAGS"}
    run = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, env=environment
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == list(RULES)
