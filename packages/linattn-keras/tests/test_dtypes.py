"""Dtypes of inputs, outputs and computation, by the layer's policy."""

import keras
import numpy as np
import pytest
from layers import (
    BATCH,
    SIZES,
    WIDTH,
    arrays,
    assert_close,
    assert_same_bits,
    built,
    float64,
    reference,
    sequence,
)

from linattn_keras import LinearAttention
from linattn_spec.tolerances import VALUE

# A policy -> its compute dtype and that of its variables.
POLICIES = {
    "float32": ("float32", "float32"),
    "float16": ("float16", "float16"),
    "bfloat16": ("bfloat16", "bfloat16"),
    "mixed_float16": ("float16", "float32"),
    "mixed_bfloat16": ("bfloat16", "float32"),
    "float64": ("float64", "float64"),
}
CAUSAL = pytest.mark.parametrize("causal", [True, False], ids=["causal", "not causal"])
BACKENDS = pytest.mark.parametrize("native", [True, False], ids=["native", "portable"])


def dtype_of(x):
    return keras.backend.standardize_dtype(x.dtype)


@pytest.mark.parametrize("as_policy", [str, keras.DTypePolicy], ids=["name", "policy"])
@pytest.mark.parametrize("policy", POLICIES)
@float64()
def test_a_policy_rules_weights_and_outputs(policy, as_policy):
    compute, variable = POLICIES[policy]
    layer = built(causal=True, dtype=as_policy(policy))
    assert {w.dtype for w in layer.weights} == {variable}
    assert dtype_of(layer(sequence())) == compute
    assert layer(keras.Input((None, WIDTH))).dtype == compute


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_the_global_policy_is_followed(policy):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        layer = LinearAttention(**SIZES, causal=True)
    finally:
        keras.config.set_dtype_policy(before)
    assert dtype_of(layer(sequence())) == POLICIES[policy][0]


@BACKENDS
@pytest.mark.parametrize("lengths", [(5, 6), (1,) * 11], ids=["two parts", "tokens"])
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_streaming_in_half_precision_gives_what_the_whole_gives(policy, lengths, native):
    layer = built(causal=True, dtype=policy, native=native)
    whole, whole_state = layer(sequence(), return_state=True)
    state, outputs = None, []
    for part in np.split(sequence(), np.cumsum(lengths)[:-1], axis=1):
        output, state = layer(part, initial_state=state, return_state=True)
        outputs.append(arrays(output))
    # The projections are rounded alike in both; only float32 sums differ.
    assert_close(state, whole_state, VALUE["float32"])
    assert_close(np.concatenate(outputs, axis=1), whole, VALUE[layer.compute_dtype])


@BACKENDS
@CAUSAL
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_gives_the_definition_within_a_few_roundings(policy, causal, native):
    layer = built(causal=causal, dtype=policy, native=native)
    # Rounded weights and inputs, then queries, keys, values, what is read, and the outputs.
    tolerance = 5 * VALUE[layer.compute_dtype]
    assert_close(layer(sequence()), reference(layer, sequence())[0], tolerance)


@pytest.mark.parametrize("tokens", [4096])
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_sums_over_many_tokens_are_not_rounded_to_half_precision(policy, tokens):
    layer = built(causal=True, dtype=policy)
    same = np.repeat(sequence(1), tokens, axis=1)
    _, one = layer(same[:, :1], return_state=True)
    _, many = layer(same, return_state=True)
    assert_close(many, [x * tokens for x in arrays(one)], 1e-5)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "float64"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@float64()
def test_inputs_of_another_float_dtype_are_cast(dtype, policy):
    layer = built(causal=True, dtype=policy)
    inputs = keras.ops.cast(sequence(), dtype)
    assert dtype_of(inputs) == dtype
    outputs = layer(inputs)
    assert dtype_of(outputs) == layer.compute_dtype
    assert_same_bits(outputs, layer(keras.ops.cast(inputs, layer.compute_dtype)))
    assert layer(keras.Input((None, WIDTH), dtype=dtype)).dtype == layer.compute_dtype


@pytest.mark.parametrize("symbolic", [False, True], ids=["eager", "symbolic"])
@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
def test_inputs_that_are_not_floating_point_are_refused(dtype, symbolic):
    layer = built()
    inputs = np.ones((BATCH, 11, WIDTH), dtype)
    if symbolic:
        inputs = keras.Input((None, WIDTH), dtype=dtype)
    with pytest.raises(TypeError, match=f"`inputs`, expected a floating.*Received: .*={dtype}"):
        layer(inputs)


@pytest.mark.parametrize("symbolic", [False, True], ids=["eager", "symbolic"])
@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_states_that_are_not_floating_point_are_refused(dtype, symbolic):
    layer = built(causal=True)
    inputs, state = sequence(), [x.astype(dtype) for x in arrays(layer.get_initial_state(BATCH))]
    if symbolic:
        inputs = keras.Input((None, WIDTH))
        state = [keras.Input(x.shape[1:], dtype=dtype) for x in state]
    with pytest.raises(TypeError, match=f"`initial_state`, expected a floating.*={dtype}"):
        layer(inputs, initial_state=tuple(state))
