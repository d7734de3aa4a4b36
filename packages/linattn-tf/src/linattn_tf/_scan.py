"""The serial pass: one loop node, whatever the number of steps."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import tensorflow as tf

from linattn_tf._describe import sizes
from linattn_tf._tokens import Tensor

# Terms that are added one by one.
BLOCK = 8

# body(state, one step of the sequences) -> (state, result)
Body = Callable[[Tensor, Any], tuple[Tensor, Tensor]]


def scan(body: Body, state: Tensor, sequences: Any) -> tuple[Tensor, Tensor]:
    """Runs `body` over the first axis of a named tuple's tensors; the last state, the results."""
    count = sizes(sequences[0])[0]
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


@tf.custom_gradient
def running_sums(x: Tensor) -> Any:
    """Inclusive sums along the first axis, in blocks: tf.cumsum takes several times as long."""

    def gradient(upstream):
        return tf.reverse(running_sums(tf.reverse(upstream, [0])), [0])

    return _running_sums(x), gradient


def _running_sums(x: Tensor) -> Tensor:
    count, *rest = sizes(x)
    if isinstance(count, int) and count <= BLOCK:
        return tf.stack(list(accumulate(tf.unstack(x))))
    blocks = (count + BLOCK - 1) // BLOCK
    x = tf.pad(x, [[0, blocks * BLOCK - count]] + [[0, 0]] * len(rest))
    within = list(accumulate(tf.unstack(tf.reshape(x, [blocks, BLOCK, *rest]), axis=1)))
    whole = within[-1]
    whole = _running_sums(whole) if isinstance(blocks, int) else tf.cumsum(whole)
    before = tf.concat([tf.zeros_like(whole[:1]), whole[:-1]], axis=0)
    sums = tf.stack([before + x for x in within], axis=1)
    return tf.reshape(sums, [blocks * BLOCK, *rest])[:count]


def _each(function: Callable[[Any], Any], sequences: Any) -> Any:
    return sequences._make(x if x is None else function(x) for x in sequences)
