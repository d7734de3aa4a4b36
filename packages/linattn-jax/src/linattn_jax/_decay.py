"""Decayed products inside a chunk. Every exponent is a sum of log decays, never a difference.

A difference of cumulative sums overflows, cancels when a decay is strong, and is NaN for -inf.
"""

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
    rows: Array, key: Array, log_decay: Array | None
) -> tuple[Array, Decays | None]:
    """P_irj = sum_d rows_ird key_jd exp(sum_{j<t<=i} log_decay_td) for j <= i, else 0.

    Args:
        rows: `[..., C, R, Dk]`.
        key: `[..., C, Dk]`.
        log_decay: `[..., C, 1]`, `[..., C, Dk]`, or None for no decay.

    Returns:
        P `[..., C, R, C]`, and the decays, None for no decay.
    """
    if log_decay is None:
        products = _products(rows, key)
        return jnp.where(_causal(key.shape[-2], key.ndim)[..., None, :], products, 0), None
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


def _per_head(rows: Array, key: Array, log_decay: Array) -> tuple[Array, Decays]:
    """One decay for the whole key: the plain products times exp of the segment sums."""
    *lead, length, _ = log_decay.shape
    # Column j sums what comes after token j - 1, column 0 everything: [..., C, C + 1].
    after = jnp.tril(jnp.broadcast_to(log_decay, (*lead, length, length + 1)))
    sums = jnp.cumsum(after, axis=-2)
    # Masked before exp: the gradient of a masked exponent is then 0 and not 0 * inf.
    factors = jnp.exp(jnp.where(_causal(length, sums.ndim), sums[..., 1:], -jnp.inf))
    decays = Decays(
        from_start=jnp.exp(sums[..., :1]),
        to_end=jnp.exp(sums[..., -1, 1:, None]),
        whole=jnp.exp(sums[..., -1, :1]),
    )
    return _products(rows, key) * factors[..., None, :], decays


def _per_key(rows: Array, key: Array, log_decay: Array) -> tuple[Array, Decays]:
    """One decay for each key dimension, by halving: blocks of 1, 2, 4, ... tokens are paired.

    For a pair (earlier, later) the products of later rows with earlier keys decay from the key
    to its block's end and from the later block's start to the row, so they are one matmul.
    """
    *lead, length, group, width = rows.shape
    prefix, suffix, total = log_decay, jnp.zeros_like(log_decay), log_decay
    products = jnp.sum(rows * key[..., None, :], axis=-1, keepdims=True)
    size = 1
    while size < length:
        pairs = (*lead, length // (2 * size), 2)
        later_rows = rows.reshape(*pairs, size, group, width)[..., 1, :, :, :]
        earlier_key = key.reshape(*pairs, size, width)[..., 0, :, :]
        earlier_prefix, later_prefix = _halves(prefix.reshape(*pairs, size, width))
        earlier_suffix, later_suffix = _halves(suffix.reshape(*pairs, size, width))
        earlier_total, later_total = _halves(total.reshape(*pairs, 1, width))
        across = _products(
            later_rows * jnp.exp(later_prefix)[..., None, :],
            earlier_key * jnp.exp(earlier_suffix),
        )
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
    return products.reshape(*lead, length, group, length), decays


def _halves(pairs: Array) -> tuple[Array, Array]:
    return pairs[..., 0, :, :], pairs[..., 1, :, :]


def _products(rows: Array, key: Array) -> Array:
    """`[..., C, R, D]` by `[..., c, D]`: `[..., C, R, c]`, the R rows of a token in one matmul."""
    *lead, length, group, width = rows.shape
    products = matmul(rows.reshape(*lead, length * group, width), key.mT)
    return products.reshape(*lead, length, group, key.shape[-2])


def _causal(length: int, ndim: int) -> Array:
    """Whether token j <= i, `[C, C]` after as many axes of 1 as make `ndim`."""
    return jnp.expand_dims(jnp.tri(length, dtype=bool), range(ndim - 2))
