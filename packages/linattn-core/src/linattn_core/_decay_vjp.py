"""The transpose of decayed_products, with the same sums of log decays and no difference.

What is added up for one log decay holds exp of it as a factor, so the gradient keeps its relative
precision under the strongest decay and is exactly 0 at -inf. (The identity query * d_query -
key * d_key gives the same number as a difference of large ones.)
"""

from typing import NamedTuple

import numpy as np

from linattn_core._decay import Decays, _products, segment_sums
from linattn_core._tokens import Array


def decayed_products_vjp(
    rows: Array, key: Array, log_decay: Array | None, d_products: Array, d_decays: Decays | None
) -> tuple[Array, Array, Array | None]:
    """The gradients of rows, key and log_decay, shaped like them.

    Args:
        rows, key, log_decay: the arguments of `decayed_products`.
        d_products: `[..., C, R, C]`; what it holds above the diagonal does not count.
        d_decays: shaped like the decays; None for no decay.
    """
    if log_decay is None or d_decays is None:
        causal = np.tri(key.shape[-2], dtype=bool)[:, None]
        return *_products_vjp(rows, key, np.where(causal, d_products, 0)), None
    if log_decay.shape[-1] == 1:
        return _per_head_vjp(rows, key, log_decay, d_products, d_decays)
    return _per_key_vjp(rows, key, log_decay, d_products, d_decays)


def _per_head_vjp(
    rows: Array, key: Array, log_decay: Array, d_products: Array, d_decays: Decays
) -> tuple[Array, Array, Array]:
    """Through the matrix of segment sums, from which the products and all decays come."""
    length = key.shape[-2]
    sums, after = segment_sums(log_decay)
    exp_sums = np.exp(np.where(np.tri(length, length + 1, 1, dtype=bool), sums, -np.inf))
    d_plain = d_products * exp_sums[..., None, 1:]
    d_rows, d_key = _products_vjp(rows, key, d_plain)

    d_exp_sums = np.zeros_like(sums)
    d_exp_sums[..., :, :1] = d_decays.from_start
    d_exp_sums[..., -1, 1:] = d_decays.to_end[..., 0]
    d_exp_sums[..., -1, :1] += d_decays.whole
    d_sums = d_exp_sums * exp_sums
    d_sums[..., 1:] += np.sum(d_plain * _products(rows, key), axis=-2)
    d_log_decay = np.sum(np.where(after, _reverse_cumsum(d_sums), 0), axis=-1, keepdims=True)
    return d_rows, d_key, d_log_decay


class _Level(NamedTuple):
    """Pairs of blocks of one size, `[..., C / (2 size), size, Dk]`."""

    later_prefix: Array
    earlier_suffix: Array


def _per_key_vjp(
    rows: Array, key: Array, log_decay: Array, d_products: Array, d_decays: Decays
) -> tuple[Array, Array, Array]:
    """Through the halving, from the pair of half chunks down to the pairs of tokens."""
    *lead, length, group, width = rows.shape
    levels, decays = _halve(log_decay)
    d_prefix = (d_decays.from_start * decays.from_start)[..., None, :, :]
    d_suffix = (d_decays.to_end * decays.to_end)[..., None, :, :]
    d_total = (d_decays.whole * decays.whole)[..., None, None, :]
    d_blocks = d_products[..., None, :, :, :]
    d_rows, d_key = np.zeros_like(rows), np.zeros_like(key)
    for level in reversed(levels):
        size = level.later_prefix.shape[-2]
        pairs = (*lead, length // (2 * size), 2)
        grow, shrink = np.exp(level.later_prefix)[..., None, :], np.exp(level.earlier_suffix)
        later_rows = rows.reshape(*pairs, size, group, width)[..., 1, :, :, :] * grow
        earlier_key = key.reshape(*pairs, size, width)[..., 0, :, :] * shrink
        d_later_rows, d_earlier_key = _products_vjp(
            later_rows, earlier_key, d_blocks[..., size:, :, :size]
        )
        d_rows.reshape(*pairs, size, group, width)[..., 1, :, :, :] += d_later_rows * grow
        d_key.reshape(*pairs, size, width)[..., 0, :, :] += d_earlier_key * shrink

        d_earlier_prefix, d_later_prefix = d_prefix[..., :size, :], d_prefix[..., size:, :]
        d_earlier_suffix, d_later_suffix = d_suffix[..., :size, :], d_suffix[..., size:, :]
        d_earlier_total = d_total + np.sum(d_later_prefix, axis=-2, keepdims=True)
        d_later_total = d_total + np.sum(d_earlier_suffix, axis=-2, keepdims=True)
        d_later_prefix = d_later_prefix + np.sum(d_later_rows * later_rows, axis=-2)
        d_earlier_suffix = d_earlier_suffix + d_earlier_key * earlier_key
        d_prefix = _interleave(d_earlier_prefix, d_later_prefix, -3)
        d_suffix = _interleave(d_earlier_suffix, d_later_suffix, -3)
        d_total = _interleave(d_earlier_total, d_later_total, -3)
        d_blocks = _interleave(d_blocks[..., :size, :, :size], d_blocks[..., size:, :, size:], -4)
    d_own = d_blocks.reshape(*lead, length, group, 1)
    d_rows += d_own * key[..., None, :]
    d_key += np.sum(d_own * rows, axis=-2)
    # A token's suffix is 0 whatever its log decay is.
    return d_rows, d_key, (d_prefix + d_total).reshape(log_decay.shape)


def _halve(log_decay: Array) -> tuple[list[_Level], Decays]:
    """The exponents of every level, smallest blocks first, and the decays."""
    *lead, length, width = log_decay.shape
    prefix = total = log_decay[..., None, :]
    suffix = np.zeros_like(prefix)
    levels = []
    for size in (2**n for n in range(length.bit_length() - 1)):
        pairs = (*lead, length // (2 * size), 2)
        (earlier_prefix, later_prefix), (earlier_suffix, later_suffix) = (
            np.moveaxis(x.reshape(*pairs, size, width), -3, 0) for x in (prefix, suffix)
        )
        earlier_total, later_total = np.moveaxis(total.reshape(*pairs, 1, width), -3, 0)
        levels.append(_Level(later_prefix, earlier_suffix))
        prefix = np.concatenate([earlier_prefix, later_prefix + earlier_total], axis=-2)
        suffix = np.concatenate([earlier_suffix + later_total, later_suffix], axis=-2)
        total = earlier_total + later_total
    decays = Decays(
        from_start=np.exp(prefix[..., 0, :, :]),
        to_end=np.exp(suffix[..., 0, :, :]),
        whole=np.exp(total[..., 0, 0, :]),
    )
    return levels, decays


def _products_vjp(rows: Array, key: Array, d_products: Array) -> tuple[Array, Array]:
    """The transpose of `_products`."""
    *lead, length, group, width = rows.shape
    d_products = d_products.reshape(*lead, length * group, key.shape[-2])
    d_rows = (d_products @ key).reshape(rows.shape)
    return d_rows, np.swapaxes(d_products, -1, -2) @ rows.reshape(*lead, length * group, width)


def _interleave(earlier: Array, later: Array, axis: int) -> Array:
    """Pairs of blocks as twice as many blocks, along what is `axis` of one of them."""
    stacked = np.stack([earlier, later], axis=axis)
    shape = list(earlier.shape)
    shape[axis] *= 2
    return stacked.reshape(shape)


def _reverse_cumsum(x: Array) -> Array:
    return np.cumsum(x[..., ::-1, :], axis=-2)[..., ::-1, :]
