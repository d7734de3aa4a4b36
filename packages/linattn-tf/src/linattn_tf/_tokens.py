"""The arguments as every form takes them: cast, masked, segmented, grouped by state head."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from linattn_core.dtypes import compute_dtype
from linattn_tf._describe import check_known, sizes

Tensor = tf.Tensor


class Tokens(NamedTuple):
    """One sequence, H = Hv state heads, R query heads reading each. All in the compute dtype.

    query `[B, T, H, R, Dk]`, scaled; key `[B, T, H, Dk]`; value `[B, T, H, Dv]`;
    log_decay `[B, T, H, 1]` or `[B, T, H, Dk]`, None for no decay;
    beta `[B, T, H, 1]`, None for no delta correction.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    log_decay: Tensor | None
    beta: Tensor | None

    def map(self, function: Callable[[Tensor], Tensor]) -> "Tokens":
        """`function` of every tensor that is there."""
        return Tokens(
            function(self.query),
            function(self.key),
            function(self.value),
            None if self.log_decay is None else function(self.log_decay),
            None if self.beta is None else function(self.beta),
        )


def prepare(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    log_decay: Tensor | None,
    beta: Tensor | None,
    initial_state: Tensor | None,
    mask: Tensor | None,
    segment_ids: Tensor | None,
    scale: Any,
) -> tuple[Tokens, Tensor]:
    """Checked arguments as Tokens and the initial state `[B, H, Dk, Dv]`.

    A masked token becomes one that does nothing: key, value, log_decay and beta are 0 there
    (by selection, so that NaN stays out). A segment starts with a log decay of -inf.
    """
    check_known(query=query, key=key, value=value)
    dtype = wide_dtype(query)
    batch, tokens, query_heads, key_width = sizes(query)
    mask = None if mask is None else sized("mask", mask, [batch, tokens])
    key_heads, heads, value_width = key.shape[2], *value.shape[2:]

    query = keep(mask, tf.cast(query, dtype))
    query = query * number(key_width**-0.5 if scale is None else scale, dtype)
    query = repeat_heads(query, max(query_heads, heads))
    query = tf.reshape(query, [batch, tokens, heads, max(query_heads // heads, 1), key_width])
    key = sized("key", tf.cast(key, dtype), [batch, tokens, key_heads, key_width])
    key = repeat_heads(keep(mask, key), heads)
    value = sized("value", tf.cast(value, dtype), [batch, tokens, heads, value_width])
    value = keep(mask, value)
    if log_decay is not None:
        decay_sizes = [batch, tokens, heads, key_width][: log_decay.shape.rank]
        log_decay = keep(mask, sized("log_decay", tf.cast(log_decay, dtype), decay_sizes))
        log_decay = log_decay[..., None] if log_decay.shape.rank == 3 else log_decay
    if segment_ids is not None:
        if log_decay is None:
            log_decay = tf.zeros([batch, tokens, heads, 1], dtype)
        first = starts(sized("segment_ids", segment_ids, [batch, tokens]))[..., None, None]
        log_decay = tf.where(first, number(float("-inf"), dtype), log_decay)
    if beta is not None:
        beta = keep(mask, sized("beta", tf.cast(beta, dtype), [batch, tokens, sizes(beta)[2]]))
        beta = tf.broadcast_to(beta, [batch, tokens, heads])[..., None]
    state_sizes = [batch, heads, key_width, value_width]
    if initial_state is None:
        state = tf.zeros(state_sizes, dtype)
    else:
        state = sized("initial_state", tf.cast(initial_state, dtype), state_sizes)
    return Tokens(query, key, value, log_decay, beta), state


def wide_dtype(x: Tensor) -> tf.DType:
    """The dtype to compute in for inputs like `x`."""
    return tf.as_dtype(compute_dtype(x.dtype.name))


def number(x: Any, dtype: tf.DType) -> Tensor:
    """A scalar in `dtype`; tf.cast alone would round a Python float to float32 first."""
    return tf.constant(x, dtype) if isinstance(x, (int, float)) else tf.cast(x, dtype)


def sized(name: str, x: Tensor, wanted: list[Any]) -> Tensor:
    """`x`, of the sizes `wanted`: those unknown while tracing are compared when it runs.

    The assertion is for graphs, whose optimizer takes out a reshape that seems to change nothing.
    XLA leaves the assertion out, and compares in the reshape.
    """
    if None in tuple(x.shape) or not all(isinstance(size, int) for size in wanted):
        message = f"{name} disagrees with query in a size that was unknown while tracing"
        tf.debugging.assert_equal(tf.shape(x), tf.stack(wanted), message)
    return tf.reshape(x, wanted)


def keep(mask: Tensor | None, x: Tensor) -> Tensor:
    """`x` `[B, T, ...]` where the mask is True, 0 elsewhere, whatever `x` holds there."""
    if mask is None:
        return x
    mask = tf.reshape(mask, sizes(x)[:2] + [1] * (x.shape.rank - 2))
    return tf.where(mask, x, number(0, x.dtype))


def starts(segment_ids: Tensor) -> Tensor:
    """True `[B, T]` at the first token of every segment but the first one."""
    changes = tf.not_equal(segment_ids[:, 1:], segment_ids[:, :-1])
    return tf.concat([tf.zeros_like(segment_ids[:, :1], tf.bool), changes], axis=1)


def repeat_heads(x: Tensor, heads: int) -> Tensor:
    """`[B, T, h, D]` as `[B, T, heads, D]`: each head repeated for its neighbours, not tiled."""
    if x.shape[2] == heads:
        return x
    return tf.repeat(x, heads // x.shape[2], axis=2)


def finish(output: Tensor, mask: Tensor | None, dtype: tf.DType) -> Tensor:
    """`[B, T, H, R, Dv]` as `[B, T, H * R, Dv]`, 0 at masked tokens, rounded once."""
    batch, tokens, heads, group, width = sizes(output)
    output = tf.reshape(output, [batch, tokens, heads * group, width])
    return tf.cast(keep(mask, output), dtype)
