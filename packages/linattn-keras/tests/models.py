"""Functional models with the layer in them, streaming ones too."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import pytest
from layers import SIZES, WIDTH, built

from linattn_keras import LinearAttention

either_implementation = pytest.mark.parametrize("native", [True, False], ids=["native", "portable"])


def model_of(layer: LinearAttention, masked: bool = False) -> keras.Model:
    """Outputs from inputs of any batch size and length; all-zero tokens are padding if masked."""
    inputs = keras.Input((None, WIDTH))
    tokens = keras.layers.Masking()(inputs) if masked else inputs
    return keras.Model(inputs, layer(tokens))


def two_layers(**arguments: Any) -> tuple[LinearAttention, LinearAttention]:
    """Two causal layers, of which the second takes what the first one gives."""
    sizes = {**SIZES, "output_shape": None}
    return tuple(built(**{**sizes, "causal": True, **arguments}) for _ in range(2))


def streaming_model(layers: Sequence[LinearAttention]) -> keras.Model:
    """[inputs, *states] to [outputs, *final states], layer after layer."""
    inputs = outputs = keras.Input((None, WIDTH))
    initial, final = [], []
    for layer in layers:
        state = layer.get_initial_state()
        outputs, after = layer(outputs, initial_state=state, return_state=True)
        initial += state
        final += after
    return keras.Model([inputs, *initial], [outputs, *final])


def no_state(model: keras.Model, batch: int) -> list[np.ndarray]:
    """The zeros that a streaming model starts from."""
    return [np.zeros((batch, *x.shape[1:]), "float32") for x in model.inputs[1:]]


def stream(model: keras.Model, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """[outputs of all parts, *final states] of a streaming model that is given part by part."""
    state, outputs = no_state(model, len(parts[0])), []
    for part in parts:
        output, *state = (
            keras.ops.convert_to_numpy(x)
            for x in model([keras.ops.convert_to_tensor(x) for x in (part, *state)])
        )
        outputs.append(output)
    return [np.concatenate(outputs, axis=1), *state]
