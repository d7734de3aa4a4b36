"""Decayed products inside a chunk. Every exponent is a sum of log decays, never a difference.

A difference of cumulative sums overflows, cancels when a decay is strong, and is NaN for -inf.
"""

from typing import NamedTuple

import tensorflow as tf

from linattn_tf._describe import sizes
from linattn_tf._tokens import Tensor, number


class Decays(NamedTuple):
    """What the tokens of a chunk of C decay by; K is 1 (per head) or Dk (per key)."""

    from_start: Tensor  # [..., C, K]: from the chunk's start to after each token
    to_end: Tensor  # [..., C, K]: from after each token to the chunk's end
    whole: Tensor  # [..., K]: over the whole chunk


def decayed_products(
    rows: Tensor, key: Tensor, log_decay: Tensor | None
) -> tuple[Tensor, Decays | None]:
    """P_irj = sum_d rows_ird key_jd exp(sum_{j<t<=i} log_decay_td) for j <= i, else 0.

    Args:
        rows: `[..., C, R, Dk]`.
        key: `[..., C, Dk]`.
        log_decay: `[..., C, 1]`, `[..., C, Dk]`, or None for no decay.

    Returns:
        P `[..., C, R, C]`, and the decays, None for no decay.
    """
    if log_decay is None:
        seen = _causal(key.shape[-2])[:, None]
        return tf.where(seen, _products(rows, key), number(0, key.dtype)), None
    if log_decay.shape[-1] == 1:
        return _per_head(rows, key, log_decay)
    return _per_key(rows, key, log_decay)


def decay_state(state: Tensor, log_decay: Tensor) -> Tensor:
    """exp(log_decay) * state, for a state `[..., K, Dv]` that decays `[..., K]` at every token.

    exp of a weak decay is a number just below 1 whose rounding is the same at every token, and adds
    up over thousands of them; what is lost, 1 - exp, is a small number that can be exact.
    """
    zero = number(0, log_decay.dtype)
    weak = log_decay > number(-0.5, log_decay.dtype)
    kept = tf.cast(weak, state.dtype)
    lost = tf.where(weak, tf.math.expm1(tf.where(weak, log_decay, zero)), tf.exp(log_decay))
    return kept[..., None] * state + lost[..., None] * state


def _per_head(rows: Tensor, key: Tensor, log_decay: Tensor) -> tuple[Tensor, Decays]:
    """One decay for the whole key: the plain products times exp of the segment sums."""
    length, dtype = key.shape[-2], key.dtype
    # Column j sums what comes after token j - 1, column 0 everything: [..., C, C + 1].
    index = tf.range(length + 1)
    after = index[:length, None] >= index
    sums = tf.cumsum(tf.where(after, log_decay, number(0, dtype)), axis=-2)
    # Masked before exp: the gradient of a masked exponent is then 0 and not 0 * inf.
    factors = tf.exp(tf.where(_causal(length), sums[..., 1:], number(float("-inf"), dtype)))
    decays = Decays(
        from_start=tf.exp(sums[..., :1]),
        to_end=tf.exp(sums[..., -1, 1:, None]),
        whole=tf.exp(sums[..., -1, :1]),
    )
    return _products(rows, key) * factors[..., None, :], decays


def _per_key(rows: Tensor, key: Tensor, log_decay: Tensor) -> tuple[Tensor, Decays]:
    """One decay for each key dimension, by halving: blocks of 1, 2, 4, ... tokens are paired.

    For a pair (earlier, later) the products of later rows with earlier keys decay from the key
    to its block's end and from the later block's start to the row, so they are one matmul.
    """
    *lead, length, group, width = sizes(rows)
    prefix, suffix, total = log_decay, tf.zeros_like(log_decay), log_decay
    products = tf.reduce_sum(rows * key[..., None, :], axis=-1, keepdims=True)
    size = 1
    while size < length:
        pairs = [*lead, length // (2 * size), 2]
        _, later_rows = _halves(rows, pairs, [size, group, width])
        earlier_key, _ = _halves(key, pairs, [size, width])
        earlier_prefix, later_prefix = _halves(prefix, pairs, [size, width])
        earlier_suffix, later_suffix = _halves(suffix, pairs, [size, width])
        earlier_total, later_total = _halves(total, pairs, [1, width])
        across = _products(
            later_rows * tf.exp(later_prefix)[..., None, :],
            earlier_key * tf.exp(earlier_suffix),
        )
        earlier, later = _halves(products, pairs, [size, group, size])
        products = tf.concat(
            [
                tf.concat([earlier, tf.zeros_like(earlier)], axis=-1),
                tf.concat([across, later], axis=-1),
            ],
            axis=-3,
        )
        prefix = tf.concat([earlier_prefix, later_prefix + earlier_total], axis=-2)
        suffix = tf.concat([earlier_suffix + later_total, later_suffix], axis=-2)
        total = earlier_total + later_total
        size *= 2
    decays = Decays(
        from_start=tf.exp(tf.reshape(prefix, [*lead, length, width])),
        to_end=tf.exp(tf.reshape(suffix, [*lead, length, width])),
        whole=tf.exp(tf.reshape(total, [*lead, width])),
    )
    return tf.reshape(products, [*lead, length, group, length]), decays


def _halves(x: Tensor, pairs: list, block: list) -> tuple[Tensor, Tensor]:
    """The earlier and the later block `[..., *block]` of every pair."""
    earlier, later = tf.unstack(tf.reshape(x, pairs + block), axis=len(pairs) - 1)
    return earlier, later


def _products(rows: Tensor, key: Tensor) -> Tensor:
    """`[..., C, R, D]` by `[..., c, D]`: `[..., C, R, c]`, the R rows of a token in one matmul."""
    *lead, length, group, width = sizes(rows)
    products = tf.matmul(tf.reshape(rows, [*lead, length * group, width]), key, transpose_b=True)
    return tf.reshape(products, [*lead, length, group, key.shape[-2]])


def _causal(length: int, diagonal: int = 0) -> Tensor:
    """True `[C, C]` where the column's token comes before the row's, or is it if diagonal is 0."""
    index = tf.range(length)
    return index[:, None] + diagonal >= index
