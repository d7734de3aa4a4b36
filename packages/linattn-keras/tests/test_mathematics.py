"""The layer is its definition: in every mode, native and portable, with its gradients."""

from functools import cache

import keras
import numpy as np
import pytest
from layers import (
    BATCH,
    arrays,
    assert_close,
    assert_same_bits,
    built,
    draw,
    float64,
    gradients,
    project,
    reference,
    sequence,
)

from linattn_spec.tolerances import GRADIENT, VALUE

LONG = 137  # two chunks of 64 tokens, as many as the operators take, and a rest
BACKENDS = pytest.mark.parametrize("native", [True, False], ids=["native", "portable"])


def state_of(layer, seed=2):
    """A state such as non-negative keys leave."""
    return tuple(
        np.abs(draw(*x.shape, seed=seed + i)) for i, x in enumerate(layer.get_initial_state(BATCH))
    )


@BACKENDS
@pytest.mark.parametrize("feature_map", ["elu_plus_one", "relu"])
@pytest.mark.parametrize("use_normalizer", [True, False], ids=["normalized", "not normalized"])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "not causal"])
def test_the_layer_is_its_definition(causal, use_normalizer, feature_map, native):
    layer = built(
        causal=causal,
        use_normalizer=use_normalizer,
        feature_map=feature_map,
        normalization_epsilon=1e-3,
        native=native,
    )
    inputs = sequence(LONG if causal else 11)
    if not causal:
        assert_close(layer(inputs), reference(layer, inputs)[0], VALUE["float32"])
        return
    state = state_of(layer)
    result = layer(inputs, initial_state=state, return_state=True)
    assert_close(result, reference(layer, inputs, initial_state=state), VALUE["float32"])


@BACKENDS
def test_a_causal_layer_is_the_unrolled_recurrence(native):
    layer = built(causal=True, normalization_epsilon=1e-3, native=native)
    inputs = sequence()
    query, key, value = (project(layer, name, inputs) for name in ("query", "key", "value"))
    query, key = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (query, key))
    S, Z = np.zeros((BATCH, 3, 4, 5)), np.zeros((BATCH, 3, 4))
    read = []
    for t in range(inputs.shape[1]):
        S = S + key[:, t, :, :, None] * value[:, t, :, None, :]
        Z = Z + key[:, t]
        numerator = np.einsum("bhk,bhkv->bhv", query[:, t], S)
        denominator = np.einsum("bhk,bhk->bh", query[:, t], Z) + 1e-3
        read.append(numerator / denominator[..., None])
    outputs = project(layer, "attention_output", np.stack(read, axis=1))
    assert_close(layer(inputs, return_state=True), (outputs, (S, Z)), VALUE["float32"])


@BACKENDS
def test_the_first_token_reads_itself(native):
    layer = built(causal=True, normalization_epsilon=0.0, native=native)
    inputs = sequence()
    own = project(layer, "attention_output", project(layer, "value", inputs))
    assert_close(layer(inputs)[:, :1], own[:, :1], VALUE["float32"])


@BACKENDS
def test_no_output_depends_on_later_tokens(native):
    layer = built(causal=True, native=native)
    inputs = sequence(LONG)
    changed = np.concatenate([inputs[:, :90], 100 * sequence(LONG - 90, seed=1)], axis=1)
    assert_same_bits(layer(changed)[:, :90], layer(inputs)[:, :90])
    assert not np.allclose(arrays(layer(changed)[:, 90:]), arrays(layer(inputs)[:, 90:]))


def streamed(layer, inputs, lengths):
    state, outputs = layer.get_initial_state(BATCH), []
    for part in np.split(inputs, np.cumsum(lengths)[:-1], axis=1):
        output, state = layer(part, initial_state=state, return_state=True)
        outputs.append(arrays(output))
    return np.concatenate(outputs, axis=1), state


@BACKENDS
@pytest.mark.parametrize("use_normalizer", [True, False], ids=["normalized", "not normalized"])
@pytest.mark.parametrize("lengths", [(64, 73), (1, 136)], ids=str)
def test_parts_give_what_the_whole_gives(lengths, use_normalizer, native):
    layer = built(causal=True, use_normalizer=use_normalizer, native=native)
    inputs = sequence(LONG)
    whole = layer(inputs, return_state=True)
    assert_close(streamed(layer, inputs, lengths), whole, VALUE["float32"])


@BACKENDS
@pytest.mark.parametrize("mode", ["auto", "parallel", "recurrent"])
def test_token_by_token_gives_what_the_whole_gives(mode, native):
    layer = built(causal=True, execution_mode=mode, native=native)
    inputs = sequence()
    whole = layer(inputs, return_state=True)
    assert_close(streamed(layer, inputs, [1] * inputs.shape[1]), whole, VALUE["float32"])


@cache
def results_and_gradients(causal, mode, native):
    """Outputs and state; gradients for inputs, initial state and weights."""
    layer = built(causal=causal, execution_mode=mode, native=native)
    inputs = sequence(LONG)
    state = state_of(layer) if causal else ()

    def call(inputs, *state):
        if not causal:
            return [layer(inputs)]
        return keras.tree.flatten(layer(inputs, initial_state=state, return_state=True))

    def loss(*tensors):
        weighted = (x * keras.ops.convert_to_tensor(draw(*x.shape, seed=9)) for x in call(*tensors))
        return sum(keras.ops.sum(x) for x in weighted)

    results = arrays(call(keras.ops.convert_to_tensor(inputs), *state))
    return results, gradients(loss, [inputs, *state], layer.trainable_variables)


@pytest.mark.parametrize(
    ("causal", "mode", "native"),
    [
        (True, "recurrent", True),
        (True, "parallel", False),
        (True, "recurrent", False),
        (False, "auto", False),
    ],
    ids=["recurrent", "portable", "portable and recurrent", "portable and not causal"],
)
def test_results_and_gradients_do_not_depend_on_how_they_are_computed(causal, mode, native):
    results, slopes = results_and_gradients(causal, mode, native)
    usual_results, usual_slopes = results_and_gradients(
        causal, "parallel" if causal else "auto", True
    )
    assert all(np.any(slope) for slope in usual_slopes)
    assert_close(results, usual_results, VALUE["float32"])
    assert_close(slopes, usual_slopes, GRADIENT["float32"])


@BACKENDS
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "not causal"])
@float64()
def test_a_float64_layer_is_its_definition_to_float64_rounding(causal, native):
    layer = built(causal=causal, dtype="float64", native=native)
    inputs = sequence(LONG if causal else 11, dtype="float64")
    outputs = layer(inputs)
    assert keras.backend.standardize_dtype(outputs.dtype) == "float64"
    assert_close(outputs, reference(layer, inputs)[0], VALUE["float64"])


@BACKENDS
@float64()
def test_float64_gradients_are_the_slopes_of_the_definition(native):
    layer = built(causal=True, dtype="float64", native=native)
    inputs = sequence(dtype="float64")
    state = tuple(x.astype("float64") for x in state_of(layer))
    weights = layer.get_weights()
    values = [inputs, *state, *weights]
    slopes = gradients(
        lambda inputs, *state: keras.ops.sum(layer(inputs, initial_state=state) ** 2),
        [inputs, *state],
        layer.trainable_variables,
    )
    step = 1e-5
    for i, (value, slope) in enumerate(zip(values, slopes, strict=True)):
        direction = draw(*value.shape, seed=i, dtype="float64")
        ends = []
        for sign in (1, -1):
            moved = [*values]
            moved[i] = value + sign * step * direction
            layer.set_weights(moved[3:])
            outputs, _ = reference(layer, moved[0], initial_state=moved[1:3])
            ends.append(np.sum(outputs**2))
        layer.set_weights(weights)
        numerical = (ends[0] - ends[1]) / (2 * step)
        scale = np.sqrt(np.sum(slope**2) * np.sum(direction**2))
        np.testing.assert_allclose(np.sum(slope * direction), numerical, 0, 1e-8 * scale)


@pytest.mark.parametrize(
    ("dtype", "native"),
    [
        ("float32", True),
        ("mixed_float16", True),
        ("mixed_bfloat16", True),
        ("mixed_float16", False),
    ],
)
def test_long_sequences_have_finite_outputs_and_gradients(dtype, native):
    layer = built(causal=True, dtype=dtype, native=native)
    inputs = 3 * sequence(4096)

    def loss(inputs):
        return keras.ops.mean(keras.ops.cast(layer(inputs), "float32") ** 2)

    assert np.all(np.isfinite(arrays(layer(inputs))))
    slopes = gradients(loss, [inputs], layer.trainable_variables)
    assert all(np.all(np.isfinite(slope)) for slope in slopes)
    assert all(np.any(slope) for slope in slopes)


@BACKENDS
@pytest.mark.parametrize("feature_map", ["elu_plus_one", "relu"])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "not causal"])
def test_denominators_near_zero_give_finite_outputs_and_gradients(causal, feature_map, native):
    layer = built(causal=causal, feature_map=feature_map, native=native)
    for weight in layer.weights:
        if "/query/" in weight.path or "/key/" in weight.path:
            weight.assign(-30 * np.abs(arrays(weight)))  # every query and key far below 0
    inputs = np.abs(sequence())
    assert_close(layer(inputs), reference(layer, inputs)[0], VALUE["float32"])
    slopes = gradients(lambda x: keras.ops.sum(layer(x) ** 2), [inputs], layer.trainable_variables)
    assert all(np.all(np.isfinite(slope)) for slope in slopes)
