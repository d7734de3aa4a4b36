"""Functional models that take and return states: built, saved, copied, and run part by part."""

import keras
import numpy as np
import pytest
from layers import (
    BATCH,
    SIZES,
    TOKENS,
    WIDTH,
    arrays,
    assert_close,
    assert_same_bits,
    built,
    draw,
    sequence,
)
from models import either_implementation, model_of, no_state, stream, streaming_model, two_layers

# Sums in another order, in float32, through two layers.
ROUNDING = 1e-5


def saved_and_loaded(model, folder):
    path = folder / "model.keras"
    model.save(path)
    return keras.saving.load_model(path)


def cloned(model, folder):
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    return copy


copies = pytest.mark.parametrize("copy", [saved_and_loaded, cloned])


@either_implementation
@pytest.mark.parametrize("parts", [TOKENS * [1], [4, 1, 6]], ids=["tokens", "chunks"])
def test_streaming_through_two_layers_equals_the_whole_sequence(native, parts):
    layers = two_layers(native=native)
    inputs = sequence()
    pieces = np.split(inputs, np.cumsum(parts)[:-1], axis=1)
    whole, first = layers[0](inputs, return_state=True)
    whole, second = layers[1](whole, return_state=True)
    assert_close(stream(streaming_model(layers), pieces), [whole, *first, *second], ROUNDING)


def test_streaming_without_a_normalizer_hands_on_one_state_per_layer():
    layers = two_layers(use_normalizer=False)
    model = streaming_model(layers)
    assert len(model.inputs) == len(model.outputs) == 3
    inputs = sequence()
    whole = layers[1](layers[0](inputs))
    assert_close(stream(model, [inputs[:, :7], inputs[:, 7:]])[0], whole, ROUNDING)


@copies
def test_a_copy_of_a_streaming_model_streams_alike(copy, tmp_path):
    model = streaming_model(two_layers())
    parts = np.split(sequence(), [4, 5], axis=1)
    assert_same_bits(stream(copy(model, tmp_path), parts), stream(model, parts))


@copies
def test_predict_of_a_copy_of_a_streaming_model_takes_the_states(copy, tmp_path):
    model = streaming_model(two_layers())
    state = [draw(*x.shape, seed=3) ** 2 for x in no_state(model, BATCH)]
    expected = model([keras.ops.convert_to_tensor(x) for x in (sequence(), *state)])
    predicted = copy(model, tmp_path).predict([sequence(), *state], verbose=0)
    assert_close(predicted, expected, ROUNDING)


@copies
def test_a_state_that_is_a_constant_stays_in_the_model(copy, tmp_path):
    layer = built(causal=True)
    _, state = layer(sequence(seed=5), return_state=True)
    inputs = keras.Input((None, WIDTH), batch_size=BATCH)
    model = copy(keras.Model(inputs, layer(inputs, initial_state=state)), tmp_path)
    assert_close(model(sequence()), layer(sequence(), initial_state=state), ROUNDING)


def test_the_initial_state_of_a_batch_is_no_state_at_all():
    layer = built(causal=True)
    inputs = keras.Input((None, WIDTH), batch_size=BATCH)
    model = keras.Model(inputs, layer(inputs, initial_state=layer.get_initial_state(BATCH)))
    assert_same_bits(model(sequence()), model_of(layer)(sequence()))


@copies
def test_a_layer_starts_from_the_state_of_another_one(copy, tmp_path):
    encoder, decoder = built(causal=True), built(causal=True)
    decoder.set_weights([0.3 * w for w in decoder.get_weights()])
    source, target = keras.Input((None, WIDTH)), keras.Input((None, WIDTH))
    _, state = encoder(source, return_state=True)
    model = keras.Model([source, target], decoder(target, initial_state=state))
    first, second = sequence(7), sequence(4, seed=2)
    _, state = encoder(first, return_state=True)
    expected = arrays(decoder(second, initial_state=state))
    assert np.abs(expected - arrays(decoder(second))).max() > 0.01
    assert_close(copy(model, tmp_path)([first, second]), expected, ROUNDING)


@copies
def test_a_streaming_model_keeps_the_mask_of_its_embedding(copy, tmp_path):
    layer = built(causal=True)
    ids = np.array([[1, 2, 0, 0, 5], [3, 0, 1, 1, 0]])
    tokens = keras.Input((None,), dtype="int32")
    embedding = keras.layers.Embedding(9, WIDTH, mask_zero=True)
    state = layer.get_initial_state()
    outputs, final = layer(embedding(tokens), initial_state=state, return_state=True)
    model = copy(keras.Model([tokens, *state], [outputs, *final]), tmp_path)
    before = [draw(BATCH, *shape, seed=4) ** 2 for shape in ((3, 4, 5), (3, 4))]
    outputs, *final = model([keras.ops.convert_to_tensor(x) for x in (ids, *before)])
    np.testing.assert_array_equal(arrays(outputs)[ids == 0], 0)
    expected = layer(embedding(ids), mask=ids != 0, initial_state=before, return_state=True)
    assert_close([outputs, *final], expected, ROUNDING)


def test_the_states_are_no_weights():
    layers = two_layers()
    names = {w.path.split("/")[-1] for w in streaming_model(layers).weights}
    assert names == {"kernel", "bias"}
    assert layers[0].key_dim == SIZES["key_dim"]
