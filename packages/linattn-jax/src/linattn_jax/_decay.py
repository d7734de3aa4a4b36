"""Decayed products inside a chunk. Every exponent is a sum of log decays, never a difference.

A difference of cumulative sums overflows, cancels when a decay is strong, and is NaN for -inf.
"""

from itertools import accumulate
from typing import NamedTuple

import jax.numpy as jnp

from linattn_jax._precision import matmul
from linattn_jax._tokens import Array


class Decays(NamedTuple):
    """What the tokens of a chunk of C decay by; K is 1 (per head) or Dk (per key)."""

    from_start: Array  # [..., C, K]: from the chunk's start to after each token
    to_end: Array  # [..., C, K]: from after each token to the chunk's end
    whole: Array  # [..., K]: over the whole chunk


def decayed_products(
    rows: list[Array], key: Array, log_decay: Array | None
) -> tuple[list[Array], Decays | None]:
    """P_rij = sum_d rows_rid key_jd exp(sum_{j<t<=i} log_decay_td) for j <= i, else 0.

    Args:
        rows: some `[..., R, C, Dk]`, each with an R of its own.
        key: `[..., C, Dk]`.
        log_decay: `[..., C, 1]`, `[..., C, Dk]`, or None for no decay.

    Returns:
        P `[..., R, C, C]` of each, and the decays, None for no decay.
    """
    if log_decay is None:
        seen = jnp.tri(key.shape[-2], dtype=bool)
        return [_where(seen, _products(x, key), 0) for x in rows], None
    if log_decay.shape[-1] == 1:
        return _per_head(rows, key, log_decay)
    return _per_key(rows, key, log_decay)


def decay_state(state: Array, log_decay: Array) -> Array:
    """exp(log_decay) * state, for a state `[..., K, Dv]` that decays `[..., K]` at every token.

    exp of a weak decay is a number just below 1 whose rounding is the same at every token, and adds
    up over thousands of them; what is lost, 1 - exp, is a small number that can be exact.
    """
    weak = log_decay > -0.5
    kept = weak.astype(state.dtype)
    lost = jnp.where(weak, jnp.expm1(jnp.where(weak, log_decay, 0)), jnp.exp(log_decay))
    return kept[..., None] * state + lost[..., None] * state


def repeat(x: Array, group: int, axis: int) -> Array:
    """`x` for each of R rows, along a new axis.

    Stacked and not broadcast, whose transpose, a sum over few rows, is slow on a CPU in XLA.
    """
    return jnp.stack([x] * group, axis=axis)


def _per_head(rows: list[Array], key: Array, log_decay: Array) -> tuple[list[Array], Decays]:
    """One decay for the whole key: the plain products times exp of the segment sums."""
    length = key.shape[-2]
    # exp of the bare sums, whose compilation takes a tenth of the time of exp of a selection. Sums
    # of nothing are 0, so nothing overflows that is selected away, forwards or backwards.
    decays = jnp.exp(_segment_sums(log_decay))
    factors = _where(jnp.tri(length, dtype=bool), decays[..., 1:], 0)
    products = [_products(x, key) * repeat(factors, x.shape[-3], -3) for x in rows]
    to_end = decays[..., -1, 1:, None]
    return products, Decays(decays[..., :1], to_end, whole=decays[..., -1, :1])


def _segment_sums(log_decay: Array) -> Array:
    """`[..., C, C + 1]` of `[..., C, 1]`: in row i, column j the sum of those from j to i, or 0.

    As a product with ones, which adds the log decays up as they are, so -inf becomes the largest
    number that C of them do not overflow: exp of it is 0 as well.
    """
    length = log_decay.shape[-2]
    least = jnp.finfo(log_decay.dtype).min / (2 * length)
    rows = _where(jnp.tri(length, dtype=bool), jnp.maximum(log_decay, least).mT, 0)
    return matmul(rows, jnp.tri(length, length + 1, dtype=log_decay.dtype))


def _per_key(rows: list[Array], key: Array, log_decay: Array) -> tuple[list[Array], Decays]:
    """One decay for each key dimension, by halving: blocks of 1, 2, 4, ... tokens are paired.

    For a pair (earlier, later) the products of later rows with earlier keys decay from the key
    to its block's end and from the later block's start to the row, so they are one matmul.
    """
    groups = [x.shape[-3] for x in rows]
    # Here the rows of a token are neighbours, so that those of a block are one matrix.
    together = jnp.moveaxis(jnp.concatenate(rows, axis=-3), -3, -2)
    *lead, length, group, width = together.shape
    prefix, suffix, total = log_decay, jnp.zeros_like(log_decay), log_decay
    products = jnp.sum(together * repeat(key, group, -2), axis=-1, keepdims=True)
    size = 1
    while size < length:
        pairs = (*lead, length // (2 * size), 2)
        later_rows = together.reshape(*pairs, size, group, width)[..., 1, :, :, :]
        earlier_key = key.reshape(*pairs, size, width)[..., 0, :, :]
        earlier_prefix, later_prefix = _halves(prefix.reshape(*pairs, size, width))
        earlier_suffix, later_suffix = _halves(suffix.reshape(*pairs, size, width))
        earlier_total, later_total = _halves(total.reshape(*pairs, 1, width))
        later_rows = later_rows * repeat(jnp.exp(later_prefix), group, -2)
        across = matmul(
            later_rows.reshape(*pairs[:-1], size * group, width),
            (earlier_key * jnp.exp(earlier_suffix)).mT,
        )
        across = across.reshape(*pairs[:-1], size, group, size)
        blocks = products.reshape(*pairs, size, group, size)
        earlier, later = blocks[..., 0, :, :, :], blocks[..., 1, :, :, :]
        products = jnp.concatenate(
            [
                jnp.concatenate([earlier, jnp.zeros_like(earlier)], axis=-1),
                jnp.concatenate([across, later], axis=-1),
            ],
            axis=-3,
        )
        prefix = jnp.concatenate([earlier_prefix, later_prefix + earlier_total], axis=-2)
        suffix = jnp.concatenate([earlier_suffix + later_total, later_suffix], axis=-2)
        total = earlier_total + later_total
        size *= 2
    decays = Decays(
        from_start=jnp.exp(prefix.reshape(*lead, length, width)),
        to_end=jnp.exp(suffix.reshape(*lead, length, width)),
        whole=jnp.exp(total.reshape(*lead, width)),
    )
    products = jnp.moveaxis(products.reshape(*lead, length, group, length), -2, -3)
    return jnp.split(products, list(accumulate(groups[:-1])), axis=-3), decays


def _halves(pairs: Array) -> tuple[Array, Array]:
    return pairs[..., 0, :, :], pairs[..., 1, :, :]


def _products(rows: Array, key: Array) -> Array:
    """`[..., R, C, D]` by `[..., c, D]`: `[..., R, C, c]`, in one matmul."""
    *lead, group, length, width = rows.shape
    products = matmul(rows.reshape(*lead, group * length, width), key.mT)
    return products.reshape(*lead, group, length, key.shape[-2])


def _where(condition: Array, x: Array, otherwise: Array | float) -> Array:
    """`jnp.where` of a condition on the last axes."""
    return jnp.where(jnp.expand_dims(condition, range(x.ndim - condition.ndim)), x, otherwise)
