"""The serial pass over segments, and its gradient, which keeps the tokens and a state of each."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from linattn_tf._describe import sizes
from linattn_tf._tokens import Tensor, Tokens

# body(tokens of a segment, the state before it) -> (output, the state after it)
Body = Callable[[Tokens, Tensor], tuple[Tensor, Tensor]]


def pass_segments(body: Body, tokens: Tokens, state: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Runs `body` over segments of `length` tokens: its outputs `[B, T, ...]`, the last state.

    The gradient of a TensorFlow loop would keep everything that its steps compute. This one runs
    the body again, segment by segment from the last to the first, and differentiates it there.
    """
    count = tokens.key.shape[1]
    if count is not None and count <= length:
        return body(tokens, state)
    if tf.executing_eagerly():
        return _one_by_one(body, tokens, state, length)
    count = sizes(tokens.key)[1]
    tokens = tokens.map(lambda x: _pad(x, length))
    given = [x for x in tokens if x is not None]
    # As what the function below returned, the states have derivatives of their own.
    kept = []

    @tf.custom_gradient
    def run(state: Tensor, *given: Tensor) -> Any:
        output, states, final_state = _forward(body, tokens, state, given, length)

        def gradient(d_output, d_states, d_final_state):
            upstream = d_output, d_states, d_final_state
            return _backward(body, tokens, kept[0], given, upstream, length)

        return (output, states, final_state), gradient

    output, states, final_state = run(state, *given)
    kept.append(states)
    return first(output, count), final_state


def _one_by_one(body: Body, tokens: Tokens, state: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Without a loop node: forward mode sees no derivatives that are taken inside of others."""
    count = tokens.key.shape[1]
    lengths = [min(length, count - start) for start in range(0, count, length)]
    parts = [[None] * len(lengths) if x is None else tf.split(x, lengths, axis=1) for x in tokens]
    outputs = []
    for part in zip(*parts, strict=True):
        output, state = body(Tokens(*part), state)
        outputs.append(output)
    return tf.concat(outputs, axis=1), state


def first(x: Tensor, count: Any) -> Tensor:
    """The first tokens of `x` `[B, T, ...]`; the gradient of x[:, :count] takes much longer."""
    if isinstance(count, int) and x.shape[1] == count:
        return x
    batch, _, *rest = sizes(x)
    return tf.slice(x, [0] * x.shape.rank, [batch, count, *rest])


def _forward(
    body: Body, tokens: Tokens, state: Tensor, given: Sequence[Tensor], length: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The outputs, the state before every segment, and the last one."""
    # Derivatives never come this way, so nothing has to be kept for them.
    state, *given = (tf.stop_gradient(x) for x in (state, *given))

    def advance(index, state, outputs, states):
        states = states.write(index, state)
        output, state = body(_segment(tokens, given, index, length), state)
        return index + 1, state, outputs.write(index, output), states

    count = sizes(given[0])[1] // length
    outputs, states = (tf.TensorArray(state.dtype, size=count) for _ in range(2))
    _, state, outputs, states = _loop(count, advance, tf.constant(0), state, outputs, states)
    return _join(outputs), states.stack(), state


def _backward(
    body: Body,
    tokens: Tokens,
    states: Tensor,
    given: Sequence[Tensor],
    upstream: tuple[Tensor, Tensor, Tensor],
    length: int,
) -> list[Tensor]:
    """The gradients of the first state and of the tokens that are there."""
    d_output, d_states, d_state = upstream

    def advance(step, d_state, *gradients):
        index = count - 1 - step
        segment = _segment(tokens, given, index, length)
        before = states[index]
        inputs = [before, *(x for x in segment if x is not None)]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            results = body(segment, before)
        d_results = [_slice(d_output, index, length), d_state]
        d_state, *d_tokens = tape.gradient(results, inputs, output_gradients=d_results)
        gradients = [x.write(index, d) for x, d in zip(gradients, d_tokens, strict=True)]
        return step + 1, d_states[index] + d_state, *gradients

    count = sizes(states)[0]
    gradients = [tf.TensorArray(x.dtype, size=count) for x in given]
    _, d_state, *gradients = _loop(count, advance, tf.constant(0), d_state, *gradients)
    return [d_state, *map(_join, gradients)]


def _loop(count: Any, advance: Callable[..., Any], *variables: Any) -> Any:
    """`advance`, as often as there are segments; the first variable counts."""
    return tf.while_loop(
        lambda index, *_: index < count,
        advance,
        variables,
        maximum_iterations=count,  # XLA needs the bound to keep what a gradient needs
    )


def _segment(tokens: Tokens, given: Sequence[Tensor], index: Tensor, length: int) -> Tokens:
    parts = iter(given)
    return tokens.map(lambda _: _slice(next(parts), index, length))


def _slice(x: Tensor, index: Tensor, length: int) -> Tensor:
    """Of fixed sizes from anywhere, as XLA wants it."""
    batch, _, *rest = sizes(x)
    part = tf.slice(x, [0, index * length] + [0] * len(rest), [batch, length, *rest])
    return tf.ensure_shape(part, [x.shape[0], length, *x.shape[2:]])


def _pad(x: Tensor, length: int) -> Tensor:
    """Tokens that do nothing, up to a whole number of segments, and to one if there are none."""
    _, count, *rest = sizes(x)
    if x.shape[1] is not None and count % length == 0:
        return x
    whole = tf.maximum(1, (count + length - 1) // length) * length
    return tf.pad(x, [[0, 0], [0, whole - count]] + [[0, 0]] * len(rest))


def _join(parts: tf.TensorArray) -> Tensor:
    """Segments `[B, C, ...]` as `[B, T, ...]`."""
    x = parts.stack()
    x = tf.transpose(x, [1, 0, *range(2, x.shape.rank)])
    batch, count, length, *rest = sizes(x)
    return tf.reshape(x, [batch, count * length, *rest])
