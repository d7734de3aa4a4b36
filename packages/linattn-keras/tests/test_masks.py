"""What a mask leaves out: of outputs, states and gradients; explicit or carried by the inputs."""

import keras
import numpy as np
import pytest
from layers import (
    BATCH,
    TOKENS,
    WIDTH,
    arrays,
    assert_close,
    assert_same_bits,
    built,
    draw,
    gradients,
    reference,
    sequence,
)

from linattn_spec.tolerances import VALUE

CAUSAL = pytest.mark.parametrize("causal", [True, False], ids=["causal", "not causal"])
BACKENDS = pytest.mark.parametrize("native", [True, False], ids=["native", "portable"])

MASKS = {
    "right padding": [[1] * 7 + [0] * 4, [1] * 11],
    "left padding": [[0] * 4 + [1] * 7, [0] * 10 + [1]],
    "gaps": [[1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 1], [0, 1, 1, 0, 1, 0, 0, 0, 1, 1, 0]],
    "one row of nothing": [[0] * 11, [1] * 11],
    "all false": [[0] * 11, [0] * 11],
    "all true": [[1] * 11, [1] * 11],
}
MASKS = {name: np.array(mask, bool) for name, mask in MASKS.items()}
GAPS = MASKS["gaps"]
# Token ids for an embedding that masks the id 0.
IDS = np.where(GAPS, np.arange(1, 23).reshape(BATCH, TOKENS) % 8 + 1, 0)


def with_garbage(inputs, mask):
    """NaN and infinities where the mask is false."""
    garbage = np.resize(np.array([np.nan, np.inf, -np.inf, 1e30], "float32"), inputs.shape)
    return np.where(mask[..., None], inputs, garbage)


def some_state(layer):
    return tuple(np.abs(draw(*x.shape, seed=3)) for x in layer.get_initial_state(BATCH))


@BACKENDS
@pytest.mark.parametrize("pattern", MASKS)
def test_masked_tokens_leave_the_state_and_give_exactly_zero(pattern, native):
    mask = MASKS[pattern]
    layer = built(causal=True, native=native)
    state = some_state(layer)
    inputs = with_garbage(sequence(), mask)
    outputs, final = layer(inputs, mask=mask, initial_state=state, return_state=True)
    assert_close((outputs, final), reference(layer, inputs, mask, state), VALUE["float32"])
    # The bias of the output projection is not 0.
    assert not np.any(arrays(outputs)[~mask])
    for row in np.flatnonzero(~mask.any(axis=1)):
        assert_same_bits([x[row] for x in final], [x[row] for x in state])


@BACKENDS
@pytest.mark.parametrize("pattern", MASKS)
def test_masked_tokens_are_no_part_of_what_a_sequence_attends_to(pattern, native):
    mask = MASKS[pattern]
    layer = built(native=native)
    inputs = with_garbage(sequence(), mask)
    outputs = layer(inputs, mask=mask)
    assert_close(outputs, reference(layer, inputs, mask)[0], VALUE["float32"])
    assert not np.any(arrays(outputs)[~mask])


@BACKENDS
@CAUSAL
@pytest.mark.parametrize("pattern", ["gaps", "one row of nothing", "all false"])
def test_garbage_at_masked_tokens_reaches_no_gradient(pattern, causal, native):
    mask = MASKS[pattern]
    layer = built(causal=causal, native=native)

    def loss(x):
        if not causal:
            return keras.ops.sum(layer(x, mask=mask) ** 2)
        outputs, state = layer(x, mask=mask, return_state=True)
        return keras.ops.sum(outputs**2) + sum(keras.ops.sum(x**2) for x in state)

    clean = gradients(loss, [sequence()], layer.trainable_variables)
    slopes = gradients(loss, [with_garbage(sequence(), mask)], layer.trainable_variables)
    assert not np.any(slopes[0][~mask])
    assert_same_bits(slopes, clean)
    if pattern != "all false":
        assert all(np.any(slope) for slope in slopes)


@CAUSAL
@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32"])
def test_masks_may_be_numbers(dtype, causal):
    layer = built(causal=causal)
    expected = layer(sequence(), mask=GAPS)
    assert_same_bits(layer(sequence(), mask=GAPS.astype(dtype)), expected)
    assert_same_bits(layer(sequence(), mask=keras.ops.cast(GAPS, dtype)), expected)


@CAUSAL
@pytest.mark.parametrize("shape", [(1, TOKENS), (BATCH, 1), (1, 1)], ids=str)
def test_masks_are_broadcast_over_rows_and_tokens(shape, causal):
    layer = built(causal=causal)
    mask = GAPS[: shape[0], : shape[1]]
    whole = np.array(np.broadcast_to(mask, GAPS.shape))
    outputs = layer(sequence(), mask=mask)
    assert_same_bits(outputs, layer(sequence(), mask=whole))
    assert_close(outputs, reference(layer, sequence(), whole)[0], VALUE["float32"])


@CAUSAL
@pytest.mark.parametrize("pattern", ["right padding", "left padding", "gaps"])
def test_padded_sequences_give_what_their_tokens_alone_give(pattern, causal):
    mask = MASKS[pattern]
    layer = built(causal=causal)
    outputs = arrays(layer(with_garbage(sequence(), mask), mask=mask))
    for row in range(BATCH):
        alone = layer(sequence()[row : row + 1, mask[row]])
        assert_close(outputs[row : row + 1, mask[row]], alone, VALUE["float32"])


@CAUSAL
@pytest.mark.parametrize("row", range(BATCH))
def test_a_masked_row_alone_gives_what_it_gives_in_a_batch(row, causal):
    layer = built(causal=causal)
    part = slice(row, row + 1)
    alone = layer(sequence()[part], mask=GAPS[part])
    assert_close(alone, layer(sequence(), mask=GAPS)[part], VALUE["float32"])


@pytest.mark.parametrize("masking", ["embedding", "masking"])
@CAUSAL
def test_the_mask_that_inputs_carry_is_used(causal, masking):
    if masking == "embedding":
        source = keras.layers.Embedding(9, WIDTH, mask_zero=True)
        inputs = source(IDS)
    else:
        source = keras.layers.Masking(0.0)
        inputs = source(np.where(GAPS[..., None], sequence(), 0))
    layer = built(causal=causal)
    expected = layer(arrays(inputs), mask=GAPS)
    assert_same_bits(layer(inputs), expected)
    # An explicit mask takes its place.
    everything = np.ones_like(GAPS)
    assert_same_bits(layer(inputs, mask=everything), layer(arrays(inputs), mask=everything))


class Received(keras.layers.Layer):
    """The mask that reaches the layer after."""

    def __init__(self):
        super().__init__()
        self.supports_masking = True

    def call(self, inputs, mask=None):
        return keras.ops.cast(
            keras.ops.ones_like(inputs[..., 0]) if mask is None else mask, "int32"
        )


def streaming_model(layer, embedding):
    """Ids and a state in; outputs, the mask that they carry, and the state out."""
    ids = keras.Input((None,), dtype="int32")
    state = layer.get_initial_state()
    outputs, final = layer(embedding(ids), initial_state=state, return_state=True)
    return keras.Model([ids, *state], [outputs, Received()(outputs), *final])


@pytest.mark.parametrize("way", ["eager", "predict"])
def test_the_mask_that_inputs_carry_is_used_when_a_state_is_given_too(way):
    layer = built(causal=True)
    embedding = keras.layers.Embedding(9, WIDTH, mask_zero=True)
    model = streaming_model(layer, embedding)
    state = some_state(layer)
    given = [IDS, *state]
    outputs, carried, *final = model(given) if way == "eager" else model.predict(given, verbose=0)
    expected = layer(arrays(embedding(IDS)), mask=GAPS, initial_state=state, return_state=True)
    assert_close((outputs, final), expected, VALUE["float32"])
    assert not np.any(arrays(outputs)[~GAPS])
    assert_same_bits(carried, GAPS.astype("int32"))


def test_the_mask_is_used_when_a_state_is_given_without_a_model():
    layer = built(causal=True)
    inputs = keras.layers.Embedding(9, WIDTH, mask_zero=True)(IDS)
    state = some_state(layer)
    expected = layer(arrays(inputs), mask=GAPS, initial_state=state, return_state=True)
    assert_same_bits(layer(inputs, initial_state=state, return_state=True), expected)


@pytest.mark.parametrize("return_state", [False, True])
def test_outputs_carry_the_mask_on_and_states_carry_none(return_state):
    layer = built(causal=True)
    inputs = keras.layers.Embedding(9, WIDTH, mask_zero=True)(IDS)
    result = layer(inputs, return_state=return_state)
    outputs, state = result if return_state else (result, ())
    assert_same_bits(Received()(outputs), GAPS.astype("int32"))
    for x in state:
        assert_same_bits(Received()(x), np.ones(x.shape[:-1], "int32"))


@pytest.mark.parametrize("shape", [(1, TOKENS), (BATCH, 1)], ids=str)
def test_the_mask_that_is_carried_on_has_the_size_of_the_sequence(shape):
    mask = GAPS[: shape[0], : shape[1]].astype("int32")
    whole = np.broadcast_to(mask, GAPS.shape).astype("int32")
    assert_same_bits(Received()(built()(sequence(), mask=mask)), whole)
