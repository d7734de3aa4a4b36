"""Random arguments of linear_attention, all sizes different."""

import numpy as np
import tensorflow as tf

SIZES = dict(B=2, T=7, Hq=6, Hk=1, Hv=3, Dk=4, Dv=5)


def problem(rule="gated_delta", *, dtype="float64", per_key=False, seed=0, **sizes):
    """Every tensor that `rule` takes, an initial state included, by argument name."""
    n, rng = SIZES | sizes, np.random.default_rng(seed)
    key = rng.normal(size=(n["B"], n["T"], n["Hk"], n["Dk"]))
    inputs = {
        "query": rng.normal(size=(n["B"], n["T"], n["Hq"], n["Dk"])),
        "key": key / np.linalg.norm(key, axis=-1, keepdims=True),
        "value": rng.normal(size=(n["B"], n["T"], n["Hv"], n["Dv"])),
        "initial_state": rng.normal(size=(n["B"], n["Hv"], n["Dk"], n["Dv"])),
    }
    if "gated" in rule:
        tail = (n["Dk"],) if per_key else ()
        inputs["log_decay"] = -rng.uniform(size=(n["B"], n["T"], n["Hv"], *tail))
    if "delta" in rule:
        inputs["beta"] = rng.uniform(size=(n["B"], n["T"], n["Hv"]))
    return {name: tf.constant(x, dtype) for name, x in inputs.items()}


def signature(inputs):
    """The inputs with B and T left open."""
    return {
        name: tf.TensorSpec(open_axes(name) + list(x.shape[len(open_axes(name)) :]), x.dtype)
        for name, x in inputs.items()
    }


def open_axes(name):
    return [None] if name == "initial_state" else [None, None]


def loss_gradients(operator, inputs, **arguments):
    """Output, state, and the gradients of a loss on both."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output, state = operator(**inputs, **arguments)
        wide, weights = tf.cast(output, state.dtype), tf.range(1, 1 + output.shape[-1])
        loss = tf.reduce_sum(wide * wide * tf.cast(weights, wide.dtype))
        loss += tf.reduce_sum(tf.sin(state))
    return output, state, tape.gradient(loss, inputs)
