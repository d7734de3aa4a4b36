"""Feature maps of kernel attention, and the normalisation of keys, on JAX arrays."""

import jax
import jax.numpy as jnp

import linattn_core
from linattn_core.checks import check_epsilon, check_feature_map_input
from linattn_jax._describe import describe
from linattn_jax._documentation import documented_as
from linattn_jax._tokens import Array, wide_dtype


@documented_as(linattn_core.elu_plus_one)
def elu_plus_one(x: Array) -> Array:
    check_feature_map_input(describe, x)
    x = jnp.asarray(x)
    wide = x.astype(wide_dtype(x))
    positive = wide > 0
    return jnp.where(positive, wide + 1, jnp.exp(jnp.where(positive, 0, wide))).astype(x.dtype)


@documented_as(linattn_core.relu)
def relu(x: Array, epsilon: float = 1e-6) -> Array:
    check_feature_map_input(describe, x)
    check_epsilon(epsilon)
    x = jnp.asarray(x)
    wide = x.astype(wide_dtype(x))
    return (jnp.where(wide > 0, wide, 0) + jnp.asarray(epsilon, wide.dtype)).astype(x.dtype)


@documented_as(linattn_core.l2_normalize)
def l2_normalize(x: Array, epsilon: float = 1e-6) -> Array:
    check_feature_map_input(describe, x, "[..., D]")
    check_epsilon(epsilon)
    x = jnp.asarray(x)
    wide = x.astype(wide_dtype(x))
    squares = jnp.sum(wide * wide, axis=-1, keepdims=True)
    return (wide * jax.lax.rsqrt(squares + jnp.asarray(epsilon, wide.dtype))).astype(x.dtype)
