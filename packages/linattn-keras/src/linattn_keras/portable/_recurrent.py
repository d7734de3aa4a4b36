"""The token-by-token form, equations (1)-(4)."""

from functools import cache

from keras import ops

from linattn_keras.portable._decay import decay_state
from linattn_keras.portable._describe import sizes, static_size
from linattn_keras.portable._scan import Body, scan
from linattn_keras.portable._tokens import Tensor, Tokens, append_tokens


def recurrent(tokens: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
    """The output `[B, T, H, R, Dv]` and the state after the last token.

    The loop returns the state after every token, which all queries then read at once: on
    TensorFlow a loop can return nothing but what is like its state, and the gradient of a loop
    keeps a state per token in any case.
    """
    count = sizes(tokens.key)[1]
    if static_size(count) == 1:
        output, state = step(tokens.map(lambda x: x[:, 0]), state)
        return output[:, None], state
    if static_size(count) is None:
        # A token that does nothing: T may be 0, and a loop without steps has no results to stack.
        tokens = tokens.map(lambda x: append_tokens(x, 1))
    packed = ops.concatenate([x for x in tokens[1:] if x is not None], axis=-1)
    decay_width = 0 if tokens.log_decay is None else sizes(tokens.log_decay)[-1]
    body = _pass_token(decay_width, tokens.beta is not None)
    final_state, states = scan(body, state, _swap(packed))
    return _swap(_swap(tokens.query) @ states)[:, :count], final_state


@cache
def _pass_token(decay_width: int, has_beta: bool) -> Body:
    """The loop's body for one token's key, value, log decay and beta in one tensor."""

    def pass_token(state: Tensor, packed: Tensor) -> tuple[Tensor, Tensor]:
        key_width, value_width = sizes(state)[-2:]
        decay_starts = key_width + value_width
        decay_ends = decay_starts + decay_width
        state = _write(
            state,
            packed[..., :key_width],
            packed[..., key_width:decay_starts],
            packed[..., decay_starts:decay_ends] if decay_width else None,
            packed[..., decay_ends:] if has_beta else None,
        )
        return state, state

    return pass_token


def step(token: Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
    """One token, the tensors of `token` without their time axis: the output and the new state."""
    state = _write(state, *token[1:])
    return token.query @ state, state


def _write(
    state: Tensor, key: Tensor, value: Tensor, log_decay: Tensor | None, beta: Tensor | None
) -> Tensor:
    if log_decay is not None:
        state = decay_state(state, log_decay)
    if beta is not None:
        value = beta * (value - (key[..., None, :] @ state)[..., 0, :])
    return state + key[..., :, None] * value[..., None, :]


def _swap(x: Tensor) -> Tensor:
    return ops.swapaxes(x, 0, 1)
