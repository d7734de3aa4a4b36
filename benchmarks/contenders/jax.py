"""linattn_jax, jitted."""

import jax.numpy as jnp

import linattn_jax
from benchmarks.contenders import Contender, builder, limits, operators
from benchmarks.frameworks import jax as FRAMEWORK

DTYPES = ("float32", "bfloat16")

CONTENDERS = {
    f"jax-jit-{mode}": Contender(
        operators.takes(mode, DTYPES),
        builder(FRAMEWORK, operators.call(linattn_jax, mode), operators.step(linattn_jax)),
    )
    for mode in operators.MODES
}
CONTENDERS["jax-matmul"] = limits.matmul(FRAMEWORK, lambda x, y: x @ y.mT, jnp.reshape)
CONTENDERS["jax-jit-copy"] = limits.compiled_step(FRAMEWORK, jnp.negative)
