"""Decayed products inside a chunk. Every exponent is a sum of log decays, never a difference.

A difference of cumulative sums overflows, cancels when a decay is strong, and is NaN for -inf.
"""

from typing import NamedTuple

import tensorflow as tf

from linattn_tf._describe import sizes
from linattn_tf._tokens import Tensor, number

# Tokens whose decays are summed one by one; those of longer spans are products of blocks' decays.
BLOCK = 8


class Decays(NamedTuple):
    """What the tokens of a chunk of C decay by; K is 1 (per head) or Dk (per key)."""

    from_start: Tensor  # [..., C, K]: from the chunk's start to after each token
    to_end: Tensor  # [..., C, K]: from after each token to the chunk's end
    whole: Tensor  # [..., K]: over the whole chunk


def decayed_products(
    rows: list[Tensor], key: Tensor, log_decay: Tensor | None
) -> tuple[list[Tensor], Decays | None]:
    """P_rij = sum_d rows_rid key_jd exp(sum_{j<t<=i} log_decay_td) for j <= i, else 0.

    Args:
        rows: some `[..., R, C, Dk]`, each with an R of its own.
        key: `[..., C, Dk]`.
        log_decay: `[..., C, 1]`, `[..., C, Dk]`, or None for no decay.

    Returns:
        P `[..., R, C, C]` of each, and the decays, None for no decay.
    """
    if log_decay is None:
        seen = _causal(key.shape[-2])
        zero = number(0, key.dtype)
        return [tf.where(seen, _products(x, key), zero) for x in rows], None
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


def _per_head(rows: list[Tensor], key: Tensor, log_decay: Tensor) -> tuple[list[Tensor], Decays]:
    """One decay for the whole key: the plain products times exp of the segment sums.

    The sums are made in two levels: of tokens inside blocks, and of whole blocks.
    """
    *lead, length, _ = sizes(log_decay)
    size = min(BLOCK, length)
    blocks = length // size
    zero = number(0, log_decay.dtype)

    # Row i, column j sums tokens j to i of a block, so the first column is a prefix, and the last
    # row all that comes from j on.
    first, others = tf.split(
        _segment_sums(tf.reshape(log_decay, [*lead, blocks, size, 1])), [1, size], axis=-1
    )
    suffix = tf.exp(tf.split(others, [size - 1, 1], axis=-2)[1])
    prefix, total = tf.exp(first), tf.split(first, [size - 1, 1], axis=-2)[1]
    # Masked before exp: the gradient of a masked exponent is then 0 and not 0 * inf.
    within = tf.exp(tf.where(_causal(size), others, number(float("-inf"), zero.dtype)))

    # The same of blocks, one row lower: row a, column b + 1 is what lies between blocks b and a.
    spans = _segment_sums(tf.squeeze(total, axis=-1))
    spans = tf.exp(tf.concat([tf.zeros([*lead, 1, blocks + 1], zero.dtype), spans], axis=-2))
    from_first, between = tf.split(spans, [1, blocks], axis=-1)
    before, whole = tf.split(from_first, [blocks, 1], axis=-2)
    between, after = tf.split(between, [blocks, 1], axis=-2)
    across = tf.expand_dims(tf.where(_causal(blocks, -1), between, zero), -2)

    within = tf.reshape(within, [*lead, blocks, size, 1, size])
    later = tf.reshape(prefix * across, [*lead, blocks, size, blocks, 1])
    earlier = tf.reshape(suffix, [*lead, 1, 1, blocks, size])
    own = tf.reshape(tf.eye(blocks, dtype=zero.dtype), [blocks, 1, blocks, 1])
    factors = tf.reshape(own * within + later * earlier, [*lead, 1, length, length])
    per_token = [*lead, length, 1]
    decays = Decays(
        from_start=tf.reshape(prefix * tf.expand_dims(before, -1), per_token),
        to_end=tf.reshape(tf.squeeze(suffix, -2) * tf.linalg.matrix_transpose(after), per_token),
        whole=tf.squeeze(whole, -1),
    )
    return [_products(x, key) * factors for x in rows], decays


def _segment_sums(x: Tensor) -> Tensor:
    """`[..., C, 1]` as `[..., C, C + 1]`: row i, column j sums rows j to i, 0 for j > i."""
    length = x.shape[-2]
    index = tf.range(length + 1)
    after = index[:length, None] >= index
    return tf.cumsum(tf.where(after, x, number(0, x.dtype)), axis=-2)


def _per_key(rows: list[Tensor], key: Tensor, log_decay: Tensor) -> tuple[list[Tensor], Decays]:
    """One decay for each key dimension, by halving: blocks of 1, 2, 4, ... tokens are paired.

    For a pair (earlier, later) the products of later rows with earlier keys decay from the key
    to its block's end and from the later block's start to the row, so they are one matmul.
    """
    # Here the rows of a token are neighbours, so that those of a block are one matrix.
    groups = [x.shape[-3] for x in rows]
    together = tf.einsum("...rik->...irk", tf.concat(rows, axis=-3))
    *lead, length, group, width = sizes(together)
    prefix, suffix, total = log_decay, tf.zeros_like(log_decay), log_decay
    products = tf.reduce_sum(together * key[..., None, :], axis=-1, keepdims=True)
    size = 1
    while size < length:
        pairs = [*lead, length // (2 * size), 2]
        _, later_rows = _halves(together, pairs, [size, group, width])
        earlier_key, _ = _halves(key, pairs, [size, width])
        earlier_prefix, later_prefix = _halves(prefix, pairs, [size, width])
        earlier_suffix, later_suffix = _halves(suffix, pairs, [size, width])
        earlier_total, later_total = _halves(total, pairs, [1, width])
        across = tf.matmul(
            _rows(later_rows * tf.exp(later_prefix)[..., None, :]),
            earlier_key * tf.exp(earlier_suffix),
            transpose_b=True,
        )
        across = tf.reshape(across, [*pairs[:-1], size, group, size])
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
    products = tf.reshape(products, [*lead, length, group, length])
    return tf.split(tf.einsum("...irj->...rij", products), groups, axis=-3), decays


def _halves(x: Tensor, pairs: list, block: list) -> tuple[Tensor, Tensor]:
    """The earlier and the later block `[..., *block]` of every pair."""
    earlier, later = tf.unstack(tf.reshape(x, pairs + block), axis=len(pairs) - 1)
    return earlier, later


def _products(rows: Tensor, key: Tensor) -> Tensor:
    """`[..., R, C, D]` by `[..., c, D]`: `[..., R, C, c]`, all R in one matmul."""
    products = tf.matmul(_rows(rows), key, transpose_b=True)
    return tf.reshape(products, sizes(rows)[:-1] + [key.shape[-2]])


def _rows(x: Tensor) -> Tensor:
    """`[..., R, C, D]` as `[..., R * C, D]`."""
    *lead, group, length, width = sizes(x)
    return tf.reshape(x, [*lead, group * length, width])


def _causal(length: int, diagonal: int = 0) -> Tensor:
    """True `[C, C]` where the column's token comes before the row's, or is it if diagonal is 0."""
    index = tf.range(length)
    return index[:, None] + diagonal >= index
