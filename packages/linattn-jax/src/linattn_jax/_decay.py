"""Decayed products inside a chunk. Every exponent is a sum of log decays, never a difference.

A difference of cumulative sums overflows, cancels when a decay is strong, and is NaN for -inf.
"""

from typing import NamedTuple

import jax.numpy as jnp

from linattn_jax._precision import matmul
from linattn_jax._tokens import Array

# Blocks of this size sum the log decays of their segments one by one.
BLOCK = 8


class Decays(NamedTuple):
    """What the tokens of a chunk of C decay by; K is 1 (per head) or Dk (per key)."""

    from_start: Array  # [..., C, K]: from the chunk's start to after each token
    to_end: Array  # [..., C, K]: from after each token to the chunk's end
    whole: Array  # [..., K]: over the whole chunk


def decayed_products(
    rows: Array, key: Array, log_decay: Array | None
) -> tuple[Array, Decays | None]:
    """P_irj = sum_d rows_ird key_jd exp(sum_{j<t<=i} log_decay_td) for j <= i, else 0.

    Args:
        rows: `[..., R, C, Dk]`.
        key: `[..., C, Dk]`.
        log_decay: `[..., C, 1]`, `[..., C, Dk]`, or None for no decay.

    Returns:
        P `[..., R, C, C]`, and the decays, None for no decay.
    """
    if log_decay is None:
        products = _products(rows, key)
        return _where(jnp.tri(key.shape[-2], dtype=bool), products, 0), None
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


def _per_head(rows: Array, key: Array, log_decay: Array) -> tuple[Array, Decays]:
    """One decay for the whole key: the plain products times one factor for each two tokens."""
    factors, decays = _factors(log_decay[..., 0])
    return _products(rows, key) * repeat(factors, rows.shape[-3], -3), decays


def _factors(log_decay: Array) -> tuple[Array, Decays]:
    """exp(sum_{j<t<=i} log_decay_t) for j <= i, else 0, `[..., C, C]`, and the decays.

    The sums of all segments are C^3 additions, so only those inside of blocks are made, and those
    of whole blocks. Between blocks the factor is a product: over the rest of j's block, over the
    blocks between, and over i's block up to i.
    """
    *lead, length = log_decay.shape
    size = min(BLOCK, length)
    blocks = length // size
    inside = _segment_sums(log_decay.reshape(*lead, blocks, size))
    between = _segment_sums(inside[..., -1, 0])

    # Masked before exp: the gradient of a masked exponent is then 0 and not 0 * inf.
    own = jnp.exp(_where(jnp.tri(size, dtype=bool), inside[..., 1:], -jnp.inf))
    own = own.reshape(*lead, length, 1, size)
    own = jnp.broadcast_to(own, (*lead, length, blocks, size)).reshape(*lead, length, length)
    # Row I, column J: the blocks from J up to the one before I.
    before = jnp.concatenate([jnp.zeros_like(between[..., :1, :]), between[..., :-1, :]], axis=-2)
    before = jnp.exp(_where(jnp.tri(blocks, blocks + 1, dtype=bool), before, -jnp.inf))
    up_to = jnp.exp(inside[..., 0])[..., None] * before[..., None, :]
    up_to = up_to.reshape(*lead, length, blocks + 1)
    rest = jnp.exp(inside[..., -1, 1:])
    block = jnp.arange(length)[None] // size
    ends = _where(jnp.arange(blocks)[:, None] == block, rest.reshape(*lead, 1, length), 0)
    factors = _where(block.mT == block, own, matmul(up_to[..., 1:], ends))

    after = jnp.exp(between[..., -1, 1:])
    decays = Decays(
        from_start=up_to[..., :1],
        to_end=(rest * after[..., None]).reshape(*lead, length, 1),
        whole=jnp.exp(between[..., -1, :1]),
    )
    return factors, decays


def _segment_sums(log_decay: Array) -> Array:
    """`[..., n, n + 1]` of `[..., n]`: in row i, column j the sum of those from j to i."""
    length = log_decay.shape[-1]
    t, i, j = jnp.ogrid[:length, :length, : length + 1]
    return jnp.sum(_where((j <= t) & (t <= i), log_decay[..., None, None], 0), axis=-3)


def _per_key(rows: Array, key: Array, log_decay: Array) -> tuple[Array, Decays]:
    """One decay for each key dimension, by halving: blocks of 1, 2, 4, ... tokens are paired.

    For a pair (earlier, later) the products of later rows with earlier keys decay from the key
    to its block's end and from the later block's start to the row, so they are one matmul.
    """
    *lead, group, length, width = rows.shape
    rows = jnp.moveaxis(rows, -3, -2)  # a pair's rows next to each other
    prefix, suffix, total = log_decay, jnp.zeros_like(log_decay), log_decay
    products = jnp.sum(rows * repeat(key, group, -2), axis=-1, keepdims=True)
    size = 1
    while size < length:
        pairs = (*lead, length // (2 * size), 2)
        later_rows = rows.reshape(*pairs, size, group, width)[..., 1, :, :, :]
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
    return jnp.moveaxis(products.reshape(*lead, length, group, length), -2, -3), decays


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
