"""The package as the conformance runner sees it: arrays in, arrays out."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import linattn_tf
from linattn_spec.conformance import flat, named

# Results by name, and the functions that were traced for them.
_compiled: dict[Any, Callable[..., Any]] = {}
NOT_DIFFERENTIATED = ("mask", "segment_ids")


def adapter(
    operator,
    inputs,
    arguments,
    cotangents=None,
    *,
    execution_mode="auto",
    compiled=None,
    operators=linattn_tf,
) -> dict[str, Any]:
    """Calls `operator`; with cotangents also its gradients. An adapter of linattn_spec.conformance.

    Args:
        compiled: None to run eagerly, "graph" for a tf.function, "xla" for jit_compile=True. A
            function is traced with unknown B and T and kept for every case it fits.
    """
    if operator in ("linear_attention", "kernelized_attention"):
        arguments = {"execution_mode": execution_mode} | arguments
    tensors = tf.nest.map_structure(tf.constant, inputs)
    cotangents = {} if cotangents is None else dict(cotangents)
    run = _runner(getattr(operators, operator), operator, arguments)
    if compiled is not None:
        run = _compile(run, compiled, operators, operator, arguments, tensors, cotangents)
    return {name: x.numpy() for name, x in run(tensors, cotangents).items()}


def _runner(function, operator, arguments):
    def run(inputs, cotangents):
        watched = {name: x for name, x in inputs.items() if name not in NOT_DIFFERENTIATED}
        with tf.GradientTape() as tape:
            tape.watch(watched)
            results = named(operator, function(**inputs, **arguments))
            products = [
                tf.reduce_sum(tf.cast(x, tf.float64) * cotangents[name])
                for name, x in results.items()
                if name in cotangents
            ]
            loss = tf.add_n(products) if products else None
        if loss is None:
            return results
        gradients = tape.gradient(loss, watched, unconnected_gradients="zero")
        return results | flat({f"gradient.{name}": x for name, x in gradients.items()})

    return run


def _compile(run, compiled, operators, operator, arguments, tensors, cotangents):
    unknown = {} if operator in ("elu_plus_one", "relu", "l2_normalize") else {0: None}
    tokens = {} if operator == "linear_attention_step" else unknown and {1: None}

    def spec(name, x):
        axes = unknown if "state" in name else unknown | tokens
        sizes = [axes.get(axis, size) for axis, size in enumerate(x.shape)]
        return tf.TensorSpec(sizes, tf.as_dtype(x.dtype))

    signature = tuple(
        {
            name: tf.nest.map_structure(lambda x, name=name: spec(name, x), value)
            for name, value in values.items()
        }
        for values in (tensors, cotangents)
    )
    key = compiled, operators, operator, repr(sorted(arguments.items())), repr(signature)
    if key not in _compiled:
        _compiled[key] = tf.function(
            run, input_signature=signature, jit_compile=True if compiled == "xla" else None
        )
    return _compiled[key]
