"""Full precision whatever the caller's framework-wide settings say."""

from functools import partial

import jax
import jax.numpy as jnp

# By default a GPU multiplies float32 in TF32 and a TPU in bfloat16.
matmul = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
einsum = partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)
