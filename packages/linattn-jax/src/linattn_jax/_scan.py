"""The serial pass: one loop node, however many steps it takes."""

from collections.abc import Callable

import jax

from linattn_jax._tokens import Array, Tokens

# body(state, one step of the sequences) -> (state, result)
Body = Callable[[Array, Tokens], tuple[Array, Array]]


def scan(body: Body, state: Array, sequences: Tokens) -> tuple[Array, Array]:
    """Runs `body` over the first axis; the last state and the stacked results.

    `body` should be a function of a module: one made anew in every call compiles anew too.
    """
    return jax.lax.scan(body, state, sequences)
