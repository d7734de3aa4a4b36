"""The serial pass: one loop node, whatever the number of steps."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from linattn_tf._describe import sizes
from linattn_tf._tokens import Tensor

# body(state, one step of the sequences) -> (state, result)
Body = Callable[[Tensor, Any], tuple[Tensor, Tensor]]


def scan(body: Body, state: Tensor, sequences: Any) -> tuple[Tensor, Tensor]:
    """Runs `body` over the first axis of a named tuple's tensors; the last state, the results."""
    first = sequences[0]
    if first.shape[0] == 1:
        state, result = body(state, _each(lambda x: x[0], sequences))
        return state, result[None]
    count = sizes(first)[0]
    steps = _each(
        lambda x: tf.TensorArray(x.dtype, size=count, element_shape=x.shape[1:]).unstack(x),
        sequences,
    )

    def advance(index, state, results):
        state, result = body(state, _each(lambda x: x.read(index), steps))
        return index + 1, state, results.write(index, result)

    _, state, results = tf.while_loop(
        lambda index, *_: index < count,
        advance,
        (tf.constant(0), state, tf.TensorArray(state.dtype, size=count)),
        maximum_iterations=count,  # XLA needs the bound to keep what the gradient needs
    )
    return state, results.stack()


def _each(function: Callable[[Any], Any], sequences: Any) -> Any:
    return sequences._make(x if x is None else function(x) for x in sequences)
