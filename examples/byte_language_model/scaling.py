"""What one more token costs, in time and memory, after a context of any length.

A causal LinearAttention reads its state. A MultiHeadAttention reads the whole context again, which
has to be kept; it is counted as the layer takes it, once, not as keys and values.
"""

import statistics
import time

import keras
import numpy as np

from linattn_keras import LinearAttention

REPEATS = 15
PART = 256  # tokens of context that the state is brought to at once


def measure(width, heads, contexts, seed=0):
    """For both layers the seconds and the bytes per token at every context length."""
    random = np.random.default_rng(seed)
    linear, quadratic = _linear(width, heads), _quadratic(width, heads)
    costs = {
        name: {"seconds": [], "bytes": []} for name in ("LinearAttention", "MultiHeadAttention")
    }
    for length in contexts:
        context = random.standard_normal((1, length, width), dtype="float32")
        token = keras.ops.convert_to_tensor(context[:, -1:])
        state = [np.zeros((1, *x.shape[1:]), x.dtype) for x in linear.inputs[1:]]
        for start in range(0, length, PART):
            part = context[:, start : start + PART]
            _, *state = linear.predict_on_batch([part, *state])
        _record(costs["LinearAttention"], linear, token, state)
        _record(costs["MultiHeadAttention"], quadratic, token, [context])
    return costs


def _record(cost, model, token, kept):
    # As tensors of the framework: what is kept between tokens is not copied for each.
    inputs = [token, *map(keras.ops.convert_to_tensor, kept)]
    model.predict_on_batch(inputs)  # compiles
    seconds = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        model.predict_on_batch(inputs)
        seconds.append(time.perf_counter() - begin)
    cost["seconds"].append(statistics.median(seconds))
    cost["bytes"].append(sum(x.nbytes for x in kept))


def _linear(width, heads):
    layer = LinearAttention(heads, width // heads, causal=True)
    tokens, state = keras.Input((None, width)), layer.get_initial_state()
    outputs, final_state = layer(tokens, initial_state=state, return_state=True)
    return keras.Model([tokens, *state], [outputs, *final_state])


def _quadratic(width, heads):
    layer = keras.layers.MultiHeadAttention(heads, width // heads)
    token, context = keras.Input((1, width)), keras.Input((None, width))
    return keras.Model([token, context], layer(token, context))
