"""What the checks need to know of a JAX array."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def describe(x: Any) -> tuple[tuple[int | None, ...], str] | None:
    """The shape and the dtype's name of an array, None for anything else.

    A NumPy array counts as the JAX array it becomes; a symbolic size is not known.
    """
    if isinstance(x, (np.ndarray, np.generic)):
        try:
            x = jax.eval_shape(jnp.asarray, x)
        except TypeError:  # a dtype that JAX does not have
            return None
    elif not isinstance(x, jax.Array):
        return None
    return tuple(static_size(size) for size in x.shape), x.dtype.name


def static_size(size: Any) -> int | None:
    """A size that the program may branch on; None for one that an export leaves open."""
    return size if isinstance(size, int) else None
