"""Compiled models compute what uncompiled ones do, for any sizes, in one trace."""

import keras
import numpy as np
import pytest
from layers import BATCH, TOKENS, WIDTH, assert_close, built, draw, gradients, sequence
from models import either_implementation

BACKEND = keras.backend.backend()
# XLA fuses and reorders float32 sums.
ROUNDING = 1e-5


def compiled(function):
    """`function` of tensors, compiled as a user of the backend would."""
    if BACKEND == "jax":
        import jax

        return jax.jit(function)
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=True)
    import torch

    # Traced with gradients; the compiler of kernels is not the layer's concern.
    return torch.compile(function, backend="aot_eager")


def initial_state():
    """What summed keys can be: positive."""
    return tuple(np.abs(draw(BATCH, *shape, seed=3)) for shape in ((3, 4, 5), (3, 4)))


@either_implementation
def test_compiled_with_a_state_and_a_mask_equals_eager(native):
    layer = built(causal=True, native=native)
    mask = np.random.default_rng(2).random((BATCH, TOKENS)) < 0.6
    tensors = {"inputs": sequence(), "initial_state": initial_state(), "mask": mask}
    tensors = keras.tree.map_structure(keras.ops.convert_to_tensor, tensors)
    eager = layer(**tensors, return_state=True)
    assert_close(compiled(lambda t: layer(**t, return_state=True))(tensors), eager, ROUNDING)


def test_compiled_without_causality_equals_eager():
    layer = built()
    mask = np.arange(TOKENS) < np.array([[TOKENS], [4]])
    tensors = [keras.ops.convert_to_tensor(x) for x in (sequence(), mask)]
    assert_close(compiled(layer)(*tensors), layer(*tensors), ROUNDING)


def test_a_stateless_call_equals_the_layer():
    layer = built(causal=True)
    inputs = keras.ops.convert_to_tensor(sequence())
    outputs, kept = compiled(layer.stateless_call)([w.value for w in layer.weights], [], inputs)
    assert list(kept) == []
    assert_close(outputs, layer(inputs), ROUNDING)


def test_a_compiled_model_predicts_what_an_eager_one_does():
    layer = built(causal=True)
    inputs = keras.Input((None, WIDTH))
    model = keras.Model(inputs, layer(keras.layers.Masking()(inputs)))
    padded = sequence()
    padded[0, 8:] = 0
    model.compile(jit_compile=BACKEND != "torch")
    assert_close(model.predict(padded, verbose=0), model(padded), ROUNDING)


@either_implementation
def test_recomputing_activations_changes_no_gradient(native):
    plain = built(causal=True, native=native)
    with keras.RematScope(mode="full"):
        recomputing = built(causal=True, native=native)

    def loss_of(layer):
        return lambda x: keras.ops.sum(keras.ops.square(layer(x)))

    found, expected = (
        gradients(loss_of(layer), [sequence()], layer.trainable_weights)
        for layer in (recomputing, plain)
    )
    assert_close(found, expected, ROUNDING)


if BACKEND == "torch":
    import torch

    @either_implementation
    def test_a_call_without_state_is_one_graph(native):
        # With a state, Keras' own treatment of several outputs breaks the graph.
        layer = built(causal=True, native=native)
        inputs = torch.from_numpy(sequence())
        whole = torch.compile(lambda x: layer(x), fullgraph=True, backend="aot_eager")
        assert_close(whole(inputs), layer(inputs), ROUNDING)


if BACKEND == "tensorflow":
    import tensorflow as tf

    @pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
    @either_implementation
    def test_one_trace_serves_every_batch_and_length_with_gradients(native, jit_compile):
        layer = built(causal=True, native=native)
        traces = []

        def step(inputs, mask, state):
            traces.append(inputs.shape)
            with tf.GradientTape() as tape:
                tape.watch([inputs, *state])
                outputs, after = layer(inputs, mask, state, return_state=True)
                loss = tf.reduce_sum(outputs**2) + sum(tf.reduce_sum(x**2) for x in after)
            sources = [inputs, *state, *(w.value for w in layer.trainable_weights)]
            return outputs, after, tape.gradient(loss, sources)

        signature = (
            tf.TensorSpec([None, None, WIDTH]),
            tf.TensorSpec([None, None], tf.bool),
            (tf.TensorSpec([None, 3, 4, 5]), tf.TensorSpec([None, 3, 4])),
        )
        traced = tf.function(step, input_signature=signature, jit_compile=jit_compile)
        for batch, tokens in ((2, 70), (1, 1)):
            inputs = tf.constant(draw(batch, tokens, WIDTH))
            mask = tf.constant(np.random.default_rng(2).random((batch, tokens)) < 0.7)
            shapes = (batch, 3, 4, 5), (batch, 3, 4)
            state = tuple(tf.constant(np.abs(draw(*shape, seed=3))) for shape in shapes)
            found = traced(inputs, mask, state)
            assert traces[0] == (None, None, WIDTH)
            assert_close(found, step(inputs, mask, state), ROUNDING)
        assert [shape for shape in traces if None in tuple(shape)] == traces[:1]
