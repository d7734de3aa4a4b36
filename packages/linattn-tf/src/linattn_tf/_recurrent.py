"""The token-by-token form, equations (1)-(4)."""

import tensorflow as tf

from linattn_tf._decay import decay_state
from linattn_tf._describe import sizes
from linattn_tf._scan import scan
from linattn_tf._tokens import Tensor, Tokens


def recurrent(tokens: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
    """The output `[B, T, H, R, Dv]` and the state after the last token."""
    count = sizes(tokens.key)[1]
    final_state, outputs = scan(_pass_token, state, tokens.map(_time_first))
    return _swap(outputs)[:, :count], final_state


def _pass_token(state: Tensor, token: Tokens) -> tuple[Tensor, Tensor]:
    output, state = step(token, state)
    return state, output


def step(token: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
    """One token, the tensors of `token` without their time axis: the output and the new state."""
    if token.log_decay is not None:
        state = decay_state(state, token.log_decay)
    write = token.value
    if token.beta is not None:
        write = token.beta * (write - (token.key[..., None, :] @ state)[..., 0, :])
    state = state + token.key[..., :, None] * write[..., None, :]
    return token.query @ state, state


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
