"""No tensor of a layer, there and back, has as many elements as there are pairs of tokens."""

import math

import keras
import pytest
from layers import WIDTH, built, differentiate, sequence

# Long enough that pairs of tokens are more than what all chunks of 64 tokens hold together.
TOKENS = 1000


def shapes_on_torch(function, inputs):
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Trace(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            leaves = torch.utils._pytree.tree_leaves(result)
            found.extend(tuple(x.shape) for x in leaves if isinstance(x, torch.Tensor))
            return result

    found = []
    with Trace():
        function(inputs)
    return found


def shapes_on_jax(function, inputs):
    import jax
    from jax.extend.core import jaxprs_in_params

    pending, found = [jax.make_jaxpr(function)(inputs).jaxpr], []
    while pending:
        for equation in pending.pop().eqns:
            found += [x.aval.shape for x in equation.outvars]
            pending.extend(jaxprs_in_params(equation.params))
    return found


def shapes_on_tensorflow(function, inputs):
    import tensorflow as tf

    graph = tf.function(function).get_concrete_function(tf.constant(inputs)).graph
    definition = graph.as_graph_def(add_shapes=True)
    nodes = [*definition.node]
    for nested in definition.library.function:
        nodes += nested.node_def
    shapes = [tf.TensorShape(x) for node in nodes for x in node.attr["_output_shapes"].list.shape]
    return [tuple(x) for x in shapes if x.is_fully_defined()]


SHAPES = {"jax": shapes_on_jax, "tensorflow": shapes_on_tensorflow, "torch": shapes_on_torch}


def token_pairs(call, layer):
    """The shapes of at least TOKENS x TOKENS elements, in `call` and its gradient."""

    def gradient(inputs):
        return differentiate(
            lambda x: keras.ops.sum(call(x) ** 2), [inputs], layer.trainable_variables
        )

    found = SHAPES[keras.backend.backend()](gradient, sequence(TOKENS))
    assert any(TOKENS in shape for shape in found)
    return [shape for shape in found if math.prod(shape) >= TOKENS**2]


@pytest.mark.parametrize("native", [True, False], ids=["native", "portable"])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "not causal"])
def test_a_layer_makes_no_token_pairs(causal, native):
    layer = built(causal=causal, native=native)
    assert token_pairs(layer, layer) == []


def test_the_check_finds_the_token_pairs_of_multi_head_attention():
    layer = keras.layers.MultiHeadAttention(3, 4)
    layer.build((None, None, WIDTH), (None, None, WIDTH))
    # With the scores as a result, so that no fused kernel may hide them.
    found = token_pairs(lambda x: layer(x, x, return_attention_scores=True)[0], layer)
    assert any(shape.count(TOKENS) == 2 for shape in found)
