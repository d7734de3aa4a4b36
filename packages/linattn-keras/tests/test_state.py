"""The streaming state: its structure, its size, and what may be passed back in."""

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
    draw,
    float64,
    gradients,
    sequence,
)

from linattn_keras import LinearAttention
from linattn_spec.tolerances import GRADIENT, VALUE

SHAPES = {True: [(3, 4, 5), (3, 4)], False: [(3, 4, 5)]}
NORMALIZED = pytest.mark.parametrize("use_normalizer", [True, False], ids=["two", "one"])
HALVES = pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])


@keras.saving.register_keras_serializable(package="linattn_tests")
def both_signs(x):
    return keras.ops.relu(keras.ops.concatenate([x, -x], axis=-1))


def described(state):
    assert isinstance(state, tuple)
    return [(tuple(x.shape), keras.backend.standardize_dtype(x.dtype)) for x in state]


def some_state(layer):
    return tuple(np.abs(draw(*x.shape, seed=3)) for x in layer.get_initial_state(BATCH))


@NORMALIZED
@pytest.mark.parametrize("tokens", [0, 1, 11, 137])
def test_the_state_has_the_same_size_after_any_number_of_tokens(tokens, use_normalizer):
    layer = built(causal=True, use_normalizer=use_normalizer)
    expected = [((BATCH, *shape), "float32") for shape in SHAPES[use_normalizer]]
    outputs, state = layer(sequence(tokens), return_state=True)
    assert outputs.shape == (BATCH, tokens, 7)
    assert described(state) == expected
    assert described(layer.get_initial_state(BATCH)) == expected


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("batch", "tokens"), [(0, 0), (0, 3), (2, 0)])
def test_empty_inputs_give_empty_outputs_and_hand_the_state_on(batch, tokens, masked):
    layer = built(causal=True)
    given = tuple(np.abs(draw(batch, *shape, seed=3)) for shape in SHAPES[True])
    mask = np.ones((batch, tokens), bool) if masked else None
    inputs = draw(batch, tokens, WIDTH)
    outputs, state = layer(inputs, mask=mask, initial_state=given, return_state=True)
    assert outputs.shape == (batch, tokens, 7)
    assert_same_bits(state, given)
    assert built()(inputs, mask=mask).shape == (batch, tokens, 7)


@NORMALIZED
def test_the_initial_state_is_zeros_of_a_layer_that_need_not_be_built(use_normalizer):
    layer = LinearAttention(**SIZES, causal=True, use_normalizer=use_normalizer)
    state = layer.get_initial_state(batch_size=4)
    assert not layer.built
    assert described(state) == [((4, *shape), "float32") for shape in SHAPES[use_normalizer]]
    assert_same_bits(state, [np.zeros(x.shape) for x in state])


@NORMALIZED
def test_the_initial_state_of_no_batch_size_is_inputs_of_a_model(use_normalizer):
    layer = LinearAttention(**SIZES, causal=True, use_normalizer=use_normalizer)
    state = layer.get_initial_state()
    assert all(keras.backend.is_keras_tensor(x) for x in state)
    assert described(state) == [((None, *shape), "float32") for shape in SHAPES[use_normalizer]]
    inputs = keras.Input((None, WIDTH))
    outputs, final = layer(inputs, initial_state=state, return_state=True)
    model = keras.Model([inputs, *state], [outputs, *final])
    given = [sequence(), *some_state(layer)]
    assert_close(
        model(given),
        layer(given[0], initial_state=tuple(given[1:]), return_state=True),
        VALUE["float32"],
    )


@NORMALIZED
def test_no_state_given_is_a_state_of_zeros(use_normalizer):
    layer = built(causal=True, use_normalizer=use_normalizer)
    zeros = layer.get_initial_state(BATCH)
    assert_same_bits(
        layer(sequence(), initial_state=zeros, return_state=True),
        layer(sequence(), return_state=True),
    )


def test_a_map_that_widens_keys_widens_the_state():
    layer = built(causal=True, feature_map=both_signs)
    expected = [((BATCH, 3, 8, 5), "float32"), ((BATCH, 3, 8), "float32")]
    assert described(layer.get_initial_state(BATCH)) == expected
    whole, state = layer(sequence(), return_state=True)
    assert described(state) == expected
    _, state = layer(sequence()[:, :4], return_state=True)
    rest = layer(sequence()[:, 4:], initial_state=state)
    assert_close(rest, whole[:, 4:], VALUE["float32"])


def test_the_state_is_neither_a_variable_nor_a_part_of_the_config():
    layer = built(causal=True)
    config, paths = layer.get_config(), [v.path for v in layer.variables]
    _, state = layer(sequence(), return_state=True)
    layer(sequence(), initial_state=state, return_state=True)
    assert layer.get_config() == config
    assert [v.path for v in layer.variables] == paths
    assert len(layer.variables) == len(layer.trainable_weights) == 8


def test_a_call_does_not_remember_the_one_before():
    layer = built(causal=True)
    first = arrays(layer(sequence(), return_state=True))
    assert_same_bits(layer(sequence(), return_state=True), first)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@float64()
def test_a_state_may_have_another_float_dtype(dtype):
    layer = built(causal=True)
    given = tuple(keras.ops.cast(x, dtype) for x in some_state(layer))
    same = tuple(keras.ops.cast(x, "float32") for x in given)
    result = layer(sequence(), initial_state=given, return_state=True)
    assert [x for _, x in described(result[1])] == ["float32"] * 2
    assert_same_bits(result, layer(sequence(), initial_state=same, return_state=True))


def test_a_state_may_be_a_list():
    layer = built(causal=True)
    state = some_state(layer)
    assert_same_bits(
        layer(sequence(), initial_state=list(state)), layer(sequence(), initial_state=state)
    )


def test_gradients_go_through_the_state():
    layer = built(causal=True)

    def whole(inputs):
        return keras.ops.sum(layer(inputs) ** 2)

    def parts(inputs):
        first, state = layer(inputs[:, :5], return_state=True)
        second = layer(inputs[:, 5:], initial_state=state)
        return keras.ops.sum(first**2) + keras.ops.sum(second**2)

    expected = gradients(whole, [sequence()], layer.trainable_variables)
    slopes = gradients(parts, [sequence()], layer.trainable_variables)
    assert_close(slopes, expected, GRADIENT["float32"])


@HALVES
@NORMALIZED
def test_states_are_float32_in_mixed_precision(use_normalizer, dtype):
    layer = built(causal=True, use_normalizer=use_normalizer, dtype=dtype)
    expected = ["float32"] * len(SHAPES[use_normalizer])
    outputs, state = layer(sequence(), return_state=True)
    assert keras.backend.standardize_dtype(outputs.dtype) == layer.compute_dtype
    for x in (state, layer.get_initial_state(BATCH), layer.get_initial_state()):
        assert [name for _, name in described(x)] == expected
    inputs = keras.Input((None, WIDTH))
    outputs, state = layer(inputs, initial_state=layer.get_initial_state(), return_state=True)
    assert outputs.dtype == layer.compute_dtype
    assert [name for _, name in described(state)] == expected


@HALVES
@pytest.mark.parametrize("size", [1e6, 1.0 + 2.0**-20])
def test_half_precision_layers_do_not_round_the_state_they_are_given(size, dtype):
    layer = built(causal=True, dtype=dtype)
    state = tuple(np.full(x.shape, size, "float32") for x in layer.get_initial_state(BATCH))
    nothing = np.zeros((BATCH, 11), bool)
    _, final = layer(sequence(), mask=nothing, initial_state=state, return_state=True)
    assert_same_bits(final, state)
    outputs, final = layer(sequence(), initial_state=state, return_state=True)
    _, added = layer(sequence(), return_state=True)
    assert np.all(np.isfinite(arrays(outputs)))
    assert_close(final, [x + y for x, y in zip(state, arrays(added), strict=True)], 1e-6)
