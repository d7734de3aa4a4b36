"""The conformance adapter: NumPy arrays in, linattn_jax, NumPy arrays out."""

import functools
import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np

import linattn_jax
from linattn_spec.conformance import flat, named

jax.config.update("jax_enable_x64", True)  # or JAX would round float64 inputs to float32

WITH_MODE = ("linear_attention", "kernelized_attention")
# Every case is a program of its own that runs once, so compile five times faster, not for speed.
COMPILER_OPTIONS = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}

# A program maps memory some sixty times, and Linux lets a process have 65,530 maps: with every
# program of all fixtures, none is left. So they are forgotten after as many calls.
KEPT = 300
_CALLS = itertools.count(1)


def adapter(
    operator, inputs, arguments, cotangents=None, *, execution_mode="auto", operators=linattn_jax
):
    if operator in WITH_MODE:
        arguments = {"execution_mode": execution_mode} | arguments
    if next(_CALLS) % KEPT == 0:
        _compiled.cache_clear()
        jax.clear_caches()
    run = _compiled(operators, operator, json.dumps(arguments, sort_keys=True))
    results, gradients = run(inputs, cotangents)
    gradients = flat({f"gradient.{name}": x for name, x in gradients.items()})
    return {name: np.asarray(x) for name, x in (results | gradients).items()}


@functools.cache
def _compiled(operators, operator, arguments):
    """One jitted function per operator and arguments, so that equal shapes compile once."""
    function = functools.partial(getattr(operators, operator), **json.loads(arguments))

    def run(inputs, cotangents):
        def call(floats):
            return named(operator, function(**(inputs | floats)))

        if cotangents is None:
            return call({}), {}
        results, pull_back = jax.vjp(call, {n: x for n, x in inputs.items() if _is_floating(x)})
        given = {n: jnp.asarray(cotangents[n], x.dtype) for n, x in results.items()}
        return results, pull_back(given)[0]

    return jax.jit(run, compiler_options=COMPILER_OPTIONS)


def _is_floating(x):
    return all(jnp.issubdtype(part.dtype, jnp.floating) for part in jax.tree.leaves(x))
