"""Exported models compute what the model does, at every batch size and length.

Formats that need nothing but the backend are tested always, the others where the environment
variable LINATTN_EXPORTS is `all`: a package that one of them needs and that is missing is an error.
"""

import os

import keras
import numpy as np
import pytest
from artifacts import exported
from layers import WIDTH, arrays, assert_close, built, draw
from models import model_of, streaming_model

BACKEND = keras.backend.backend()
ALONE = {"jax": (), "tensorflow": ("tf_saved_model",), "torch": ("torch",)}
WITH_MORE = {
    "jax": ("tf_saved_model",),
    "tensorflow": ("onnx", "openvino", "litert"),
    "torch": ("onnx", "openvino", "litert"),
}
CHOICES = {None: ALONE[BACKEND], "all": ALONE[BACKEND] + WITH_MORE[BACKEND]}
FORMATS = CHOICES[os.environ.get("LINATTN_EXPORTS")]
# One size alone in an artifact: all that Keras exports to LiteRT on torch. Of keras.ops alone: what
# linattn-torch records needs a padding of more axes than LiteRT pads.
FIXED = {("torch", "litert")}
# native=None: left to the package, native where the format's way to record a program allows it.
WAYS = [
    (format, native)
    for format in FORMATS
    for native in (None, False)
    if native is False or (BACKEND, format) not in FIXED
]

CHUNK = 64
RUNS = ((1, 1), (3, 1), (2, CHUNK - 1), (3, CHUNK), (2, CHUNK + 1), (3, 3 * CHUNK + 5))
# Sums of up to 197 products, in float32 and in whatever order a runtime makes them.
ROUNDING = 5e-6


def masked(native):
    return model_of(built(native=native), masked=True)


def causal(native):
    return model_of(built(causal=True, native=native))


def streaming(native):
    return streaming_model([built(causal=True, native=native)])


def inputs_of(model, batch, tokens):
    """Sequences with padding, and states, which are positive as sums of keys are."""
    sequences = draw(batch, tokens, WIDTH, seed=tokens)
    sequences[np.random.default_rng(1).random((batch, tokens)) < 0.3] = 0
    states = [np.abs(draw(batch, *x.shape[1:], seed=2)) for x in model.inputs[1:]]
    return [sequences, *states]


def expected_of(model, inputs):
    tensors = [keras.ops.convert_to_tensor(x) for x in inputs]
    return keras.tree.flatten(arrays(model(tensors if len(tensors) > 1 else tensors[0])))


if FORMATS:  # JAX has no format of its own

    @pytest.mark.parametrize("model_for", [masked, causal, streaming])
    @pytest.mark.parametrize(("format", "native"), WAYS)
    def test_an_exported_model_computes_what_the_model_does(format, model_for, native, tmp_path):
        model = model_for(native)
        expected_of(model, inputs_of(model, 2, 3))  # ONNX takes only a model that was called
        if (BACKEND, format) not in FIXED:
            run = exported(model, format, tmp_path)
        for batch, tokens in RUNS:
            inputs = inputs_of(model, batch, tokens)
            if (BACKEND, format) in FIXED:
                run = exported(model, format, tmp_path, sizes=(batch, tokens))
            expected = expected_of(model, inputs)
            # Formats order results by names of their own, and OpenVINO lists inner ones too; all
            # shapes here differ.
            found = {x.shape: x for x in run(inputs)}
            assert_close([found[x.shape] for x in expected], expected, ROUNDING)
