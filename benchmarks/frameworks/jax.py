"""JAX, one jitted program per call, and one per token with the state donated."""

import jax
import jax.numpy as jnp


def use(threads):
    """XLA takes every core that the process may run on, which are as many."""


def forward(function, inputs, dtype):
    given, program = _tensors(inputs, dtype), jax.jit(function)
    return lambda: jax.block_until_ready(program(given))


def gradient(function, inputs, cotangents, dtype):
    given, incoming = _tensors(inputs, dtype), _tensors(cotangents, dtype)

    @jax.jit
    def program(given, incoming):
        results, pull_back = jax.vjp(function, given)
        into = {
            name: incoming[name].astype(x.dtype) if name in incoming else jnp.zeros_like(x)
            for name, x in results.items()
        }
        (gradients,) = pull_back(into)
        return results | {f"gradient.{name}": x for name, x in gradients.items()}

    return lambda: jax.block_until_ready(program(given, incoming))


def step(function, inputs, dtype):
    given, program = _tensors(inputs, dtype), jax.jit(function, donate_argnums=1)
    batch, tokens, heads, width = given["query"].shape
    each = [{name: x[:, t] for name, x in given.items()} for t in range(tokens)]

    def call(state=None):
        if state is None:
            state = jnp.zeros((batch, heads, width, width), "float32")
        for token in each:
            output, state = program(token, state)
        return jax.block_until_ready({"last_output": output, "final_state": state})

    return call


def arrays(results):
    return {name: jax.device_get(x.astype("float32")) for name, x in results.items()}


def _tensors(arrays, dtype):
    return {name: jnp.asarray(x, dtype) for name, x in arrays.items()}
