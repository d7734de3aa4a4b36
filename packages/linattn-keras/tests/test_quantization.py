"""Projections quantized in memory and low-rank adapters, as EinsumDense has them."""

import keras
import numpy as np
import pytest
from layers import arrays, assert_same_bits, built, sequence
from models import model_of

PROJECTIONS = ("query", "key", "value", "attention_output")


def projections(layer):
    found = {p.name: p for p in layer._flatten_layers() if isinstance(p, keras.layers.EinsumDense)}
    assert sorted(found) == sorted(PROJECTIONS)
    return found


@pytest.mark.parametrize(
    # Half a step of a symmetric 8-bit grid, 1/254 of the largest weight or input, twice in each
    # projection, and through two of them one after the other; 4 bits: 1/14.
    ("mode", "tolerance"),
    [("int8", 0.03), ("int4", 0.4), ("float8", 0.1)],
)
def test_quantized_outputs_are_close(mode, tolerance):
    model = model_of(built(causal=True))
    expected = arrays(model(sequence()))
    model.quantize(mode)
    quantized = arrays(model(sequence()))
    error = np.abs(quantized - expected).max() / np.abs(expected).max()
    assert error < tolerance


def test_quantizing_stores_the_kernels_in_eight_bits():
    layer = built()
    model_of(layer).quantize("int8")
    for projection in projections(layer).values():
        assert keras.backend.standardize_dtype(projection._kernel.dtype) == "int8"


def test_a_quantized_layer_streams():
    layer = built(causal=True)
    model_of(layer).quantize("int8")
    whole = arrays(layer(sequence()))
    first, state = layer(sequence()[:, :4], return_state=True)
    assert {keras.backend.standardize_dtype(x.dtype) for x in state} == {"float32"}
    second, _ = layer(sequence()[:, 4:], initial_state=state, return_state=True)
    parts = np.concatenate([arrays(first), arrays(second)], axis=1)
    # Every token has a grid of its own, so only an input at the edge of a step moves.
    assert np.abs(parts - whole).max() < 0.01 * np.abs(whole).max()


def adapted(**arguments):
    layer = built(**arguments)
    model = model_of(layer)
    for projection in projections(layer).values():
        projection.enable_lora(rank=2)
    return layer, model


def test_an_untrained_adapter_changes_nothing():
    layer, model = adapted()
    assert_same_bits(model(sequence()), built()(sequence()))
    assert len(layer.trainable_weights) == 2 * len(PROJECTIONS) + len(PROJECTIONS)


def test_training_with_adapters_leaves_the_kernels_as_they_were():
    layer, model = adapted(causal=True, use_bias=False)
    before = {w.path: arrays(w) for w in layer.weights}
    model.compile(keras.optimizers.SGD(0.1), "mse")
    target = np.zeros((2, 11, 7), "float32")
    for _ in range(2):
        assert np.isfinite(model.train_on_batch(sequence(), target))
    changed = {w.path for w in layer.weights if np.any(arrays(w) != before[w.path])}
    assert changed == {w.path for w in layer.weights if "lora_kernel" in w.path}
    assert len(changed) == 2 * len(PROJECTIONS)


def test_quantized_adapters_follow_the_trained_ones():
    layer, model = adapted(causal=True)
    for weight in layer.trainable_weights:
        weight.assign(weight + 0.1)
    expected = arrays(model(sequence()))
    model.quantize("int8")
    error = np.abs(arrays(model(sequence())) - expected).max()
    assert 0 < error < 0.03 * np.abs(expected).max()
