"""JAX as it starts, without 64-bit types: run by test_precision.py in a process of its own."""

import jax
import jax.numpy as jnp
import numpy as np
from problem import CHUNK, MODES, RULES, assert_close, draw, expected

import linattn_jax

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


def check(rule):
    inputs = draw(rule)
    inputs = {name: x.astype(np.float32).astype(np.float64) for name, x in inputs.items()}
    # One of them a JAX array: NumPy float64 is what it becomes, float32, when they are compared.
    mixed = inputs | {"key": jnp.asarray(inputs["key"])}
    slopes = {}
    for mode in MODES:

        def attend(inputs, mode=mode):
            return linattn_jax.linear_attention(
                **inputs, update_rule=rule, execution_mode=mode, chunk_size=CHUNK
            )

        output, state = attend(mixed)
        assert output.dtype == state.dtype == jnp.float32
        assert_close((output, state), expected(inputs, rule), 5e-6)
        gradient = jax.jit(jax.grad(lambda x, f=attend: sum(jnp.sum(y) for y in f(x))))
        slopes[mode] = gradient(inputs)
    assert all(slope.dtype == jnp.float32 for slope in jax.tree.leaves(slopes))
    assert_close(slopes["parallel"], slopes["recurrent"], 1e-5)


assert not jax.config.jax_enable_x64
for rule in RULES:
    check(rule)
    print(rule)
