"""Keras' MultiHeadAttention, causal.

All four of its projections are identities, so that what it computes is softmax attention and can
be compared; their time is part of it, as it is for anyone who uses the layer.
"""

import keras
import numpy as np

from benchmarks.contenders import Contender, builder
from benchmarks.frameworks import keras as FRAMEWORK


def _layer(shape):
    """The layer whose heads are the parts of its inputs."""
    _, tokens, heads, width = shape
    layer = keras.layers.MultiHeadAttention(heads, width, use_bias=False)
    layer.build(*[(None, tokens, heads * width)] * 2)
    identity = np.eye(heads * width, dtype="float32")
    layer.set_weights([identity.reshape(x.shape) for x in layer.weights])
    return layer


def _call(problem):
    layer = _layer(problem.shape)
    layer.trainable = False
    _, _, heads, width = problem.shape

    def computed(inputs):
        query, key, value = (
            keras.ops.reshape(inputs[name], (-1, problem.shape[1], heads * width))
            for name in ("query", "key", "value")
        )
        output = layer(query, value, key, use_causal_mask=True)
        return {"output": keras.ops.reshape(output, problem.shape)}

    return computed


# Beyond, the weights of all tokens by all tokens take more memory than most machines have.
LONGEST = 4096


def _takes(problem, which):
    taken = problem.rule == "softmax" and problem.dtype == "float32" and which != "step"
    return taken and problem.shape[1] <= LONGEST


CONTENDERS = {f"keras-{FRAMEWORK.BACKEND}-softmax": Contender(_takes, builder(FRAMEWORK, _call))}
