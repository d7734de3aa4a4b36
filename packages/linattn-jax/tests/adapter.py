"""The conformance adapter: NumPy arrays in, linattn_jax, NumPy arrays out."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np

import linattn_jax

jax.config.update("jax_enable_x64", True)  # or JAX would round float64 inputs to float32

WITH_MODE = ("linear_attention", "kernelized_attention")
# Every case is a program of its own that runs once, so compile five times faster, not for speed.
COMPILER_OPTIONS = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}


def adapter(operator, inputs, arguments, cotangents=None, *, execution_mode="auto"):
    if operator in WITH_MODE:
        arguments = {"execution_mode": execution_mode} | arguments
    run = _compiled(operator, json.dumps(arguments, sort_keys=True))
    results, gradients = run(inputs, cotangents)
    gradients = _flat({f"gradient.{name}": x for name, x in gradients.items()})
    return {name: np.asarray(x) for name, x in (results | gradients).items()}


@functools.cache
def _compiled(operator, arguments):
    """One jitted function per operator and arguments, so that equal shapes compile once."""
    function = functools.partial(getattr(linattn_jax, operator), **json.loads(arguments))

    def run(inputs, cotangents):
        def call(floats):
            return _named(operator, function(**(inputs | floats)))

        if cotangents is None:
            return call({}), {}
        results, pull_back = jax.vjp(call, {n: x for n, x in inputs.items() if _is_floating(x)})
        given = {n: jnp.asarray(cotangents[n], x.dtype) for n, x in results.items()}
        return results, pull_back(given)[0]

    return jax.jit(run, compiler_options=COMPILER_OPTIONS)


def _named(operator, result):
    if not isinstance(result, tuple):
        return {"output": result}
    output, state = result
    name = "present_state" if operator == "onnx_linear_attention" else "final_state"
    return {"output": output} | ({} if state is None else _flat({name: state}))


def _flat(tensors):
    """A tuple `name` as "name.0", "name.1"."""
    flat = {}
    for name, x in tensors.items():
        if isinstance(x, tuple):
            flat |= {f"{name}.{i}": part for i, part in enumerate(x)}
        else:
            flat[name] = x
    return flat


def _is_floating(x):
    return all(jnp.issubdtype(part.dtype, jnp.floating) for part in jax.tree.leaves(x))
