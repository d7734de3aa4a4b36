"""The serial pass: one loop node, however many steps it takes."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from linattn_jax._tokens import Array, Tokens

# Sums of as many, and sums of those: XLA on a CPU adds up a long axis many times slower.
BLOCK = 8

# body(state, one step of the sequences) -> (state, result)
Body = Callable[[Array, Tokens], tuple[Array, Array]]


def scan(body: Body, state: Array, sequences: Tokens) -> tuple[Array, Array]:
    """Runs `body` over the first axis; the last state and the stacked results.

    `body` should be a function of a module: one made anew in every call compiles anew too.
    """
    return jax.lax.scan(body, state, sequences)


def running_sums(x: Array) -> Array:
    """The sums of `[N, ...]` up to each of N."""
    count, *rest = x.shape
    blocks = -(-count // BLOCK)
    inside = _padded(x, 0, blocks * BLOCK - count).reshape(blocks, BLOCK, *rest)
    inside = jnp.cumsum(inside, axis=1)
    before = jnp.cumsum(_padded(inside[:, -1:], 1, 0), axis=0)[:blocks]
    return (before + inside).reshape(blocks * BLOCK, *rest)[:count]


def _padded(x: Array, before: int, after: int) -> Array:
    """With as many zeros before and after, along the first axis."""
    return jnp.pad(x, [(before, after)] + [(0, 0)] * (x.ndim - 1))
