"""TensorFlow, as a graph or compiled by XLA.

On a CPU its calls are synchronous unless one asks for something else.
"""

import tensorflow as tf


def use(threads):
    tf.config.threading.set_intra_op_parallelism_threads(threads)


def forward(function, inputs, dtype, *, xla=False):
    given, program = _tensors(inputs, dtype), tf.function(function, jit_compile=xla or None)
    return lambda: program(given)


def gradient(function, inputs, cotangents, dtype, *, xla=False):
    given, incoming = _tensors(inputs, dtype), _tensors(cotangents, dtype)

    @tf.function(jit_compile=xla or None)
    def program(given, incoming):
        with tf.GradientTape() as tape:
            tape.watch(given)
            results = function(given)
        gradients = tape.gradient(
            [results[name] for name in incoming],
            given,
            output_gradients=[tf.cast(x, results[name].dtype) for name, x in incoming.items()],
        )
        return results | {f"gradient.{name}": x for name, x in gradients.items()}

    return lambda: program(given, incoming)


def step(function, inputs, dtype, *, xla=False):
    given, program = _tensors(inputs, dtype), tf.function(function, jit_compile=xla or None)
    batch, tokens, heads, width = given["query"].shape
    each = [{name: x[:, t] for name, x in given.items()} for t in range(tokens)]

    def call(state=None):
        if state is None:
            state = tf.zeros([batch, heads, width, width])
        for token in each:
            output, state = program(token, state)
        return {"last_output": output, "final_state": state}

    return call


def arrays(results):
    return {name: tf.cast(x, tf.float32).numpy() for name, x in results.items()}


def _tensors(arrays, dtype):
    return {name: tf.cast(tf.constant(x), dtype) for name, x in arrays.items()}
