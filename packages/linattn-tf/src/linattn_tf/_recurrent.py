"""The token-by-token form, equations (1)-(4)."""

import tensorflow as tf

from linattn_tf._decay import decay_state
from linattn_tf._describe import sizes
from linattn_tf._scan import scan
from linattn_tf._tokens import Tensor, Tokens


def recurrent(tokens: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
    """The output `[B, T, H, R, Dv]` and the state after the last token."""
    count = sizes(tokens.key)[1]
    if tokens.key.shape[1] == 1:
        output, final_state = step(tokens.map(lambda x: tf.squeeze(x, axis=1)), state)
        return tf.expand_dims(output, 1), final_state
    final_state, outputs = scan(_pass_token, state, tokens.map(_time_first))
    return _swap(outputs)[:, :count], final_state


def _pass_token(state: Tensor, token: Tokens) -> tuple[Tensor, Tensor]:
    output, state = step(token, state)
    return state, output


def step(token: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
    """One token, the tensors of `token` without their time axis: the output and the new state.

    The state is what is large. It is read for the query and the key in one product, before the
    token, and then read once more and written; the query reads the token's write by itself.
    """
    query, key, write, log_decay, beta = token
    row = tf.expand_dims(key, -2)
    rows, kept = query, state
    if beta is not None:
        rows = tf.concat([query, row], axis=-2)
    if log_decay is not None:
        rows = rows * tf.expand_dims(tf.exp(log_decay), -2)
        kept = decay_state(state, log_decay)
    read = rows @ state
    if beta is not None:
        read, erased = tf.split(read, [query.shape[-2], 1], axis=-2)
        write = beta * (write - tf.squeeze(erased, axis=-2))
    write = tf.expand_dims(write, -2)
    weights = tf.reduce_sum(query * row, axis=-1, keepdims=True)
    return read + weights * write, kept + tf.expand_dims(key, -1) * write


def _time_first(x: Tensor) -> Tensor:
    """`[B, T, ...]` as `[T, B, ...]`; a T left open gets a token that does nothing if it is 0.

    The results of a loop without steps would have no shape to stack them in.
    """
    if x.shape[1] is None:
        missing = 1 - tf.minimum(tf.shape(x)[1], 1)
        x = tf.pad(x, [[0, 0], [0, missing]] + [[0, 0]] * (x.shape.rank - 2))
    return _swap(x)


def _swap(x: Tensor) -> Tensor:
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])
