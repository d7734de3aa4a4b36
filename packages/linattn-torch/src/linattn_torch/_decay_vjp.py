"""The transpose of decayed_products, with the same sums of log decays and no difference.

What is added up for one log decay holds exp of it as a factor, so the gradient keeps its relative
precision under the strongest decay and is exactly 0 at -inf. (The identity query * d_query -
key * d_key gives the same number as a difference of large ones.)
"""

from typing import NamedTuple

import torch

from linattn_torch._decay import Decays, _causal, _halves
from linattn_torch._tokens import Tensor


def add_decayed_products_vjp(
    rows: list[Tensor],
    key: Tensor,
    log_decay: Tensor | None,
    decays: Decays | None,
    products: list[Tensor],
    d_products: list[Tensor],
    d_exponents: Decays | None,
    d_rows: list[Tensor],
    d_key: Tensor,
) -> Tensor | None:
    """The gradient of log_decay, shaped like it; those of rows and key are added to given ones.

    Args:
        rows, key, log_decay: the arguments of `decayed_products`, `[N, M, ...]`.
        decays, products: its results.
        d_products: shaped like products, and written over; what they hold above the diagonal does
            not count.
        d_exponents: of what the decays are exp of, for each key; None for no decay.
        d_rows, d_key: shaped like rows and key, and added to.
    """
    if log_decay is None:
        causal = _causal(key.shape[-2], key.shape[-2], key.device)[:, None]
        d_plain = [x.mul_(causal) for x in d_products]
        _add_products_vjp(rows, key, d_plain, d_rows, d_key)
        return None
    if log_decay.shape[-1] == 1:
        d_log_decay = _per_head_vjp(products, d_products, d_exponents)
        d_plain = [x.mul_(decays.between[..., None, :]) for x in d_products]
        _add_products_vjp(rows, key, d_plain, d_rows, d_key)
        return d_log_decay
    return _add_per_key_vjp(rows, key, log_decay, d_products, d_exponents, d_rows, d_key)


def _per_head_vjp(products: list[Tensor], d_products: list[Tensor], d_exponents: Decays) -> Tensor:
    """Each product and each decay is exp of the sum from one token to a later one, or to an end."""
    pairs, *others = (torch.sum(x * dx, dim=-2) for x, dx in zip(products, d_products, strict=True))
    for x in others:
        pairs += x
    from_start, to_end, whole, _ = d_exponents
    pairs[..., -1, :] += torch.sum(to_end, dim=-1)
    # Row i, column t: of the sums over tokens that begin at or before t and end with i.
    before = pairs.new_ones(pairs.shape[-2:]).triu(1)
    ends = (pairs @ before).add_(torch.sum(from_start, dim=-1, keepdim=True)).tril_()
    d_log_decay = torch.sum(ends, dim=-2) + torch.sum(whole, dim=-1, keepdim=True)
    return d_log_decay[..., None]


class _Level(NamedTuple):
    """Pairs of blocks of one size, `[..., C / (2 size), size, Dk]`."""

    later_prefix: Tensor
    earlier_suffix: Tensor


def _add_per_key_vjp(
    rows: list[Tensor],
    key: Tensor,
    log_decay: Tensor,
    d_products: list[Tensor],
    d_exponents: Decays,
    d_rows: list[Tensor],
    d_key: Tensor,
) -> Tensor:
    """Through the halving, from the pair of half chunks down to the pairs of tokens."""
    *lead, length, width = key.shape
    d_prefix = d_exponents.from_start[..., None, :, :]
    d_suffix = d_exponents.to_end[..., None, :, :]
    d_total = d_exponents.whole[..., None, None, :]
    d_blocks = [x[..., None, :, :, :] for x in d_products]
    for level in reversed(_halve(log_decay)):
        size = level.later_prefix.shape[-2]
        pairs = (*lead, length // (2 * size), 2)
        grow, shrink = torch.exp(level.later_prefix)[..., None, :], torch.exp(level.earlier_suffix)
        earlier_key = key.reshape(*pairs, size, width)[..., 0, :, :] * shrink
        d_earlier_key = torch.zeros_like(earlier_key)

        d_earlier_prefix, d_later_prefix = _parts(d_prefix, size)
        d_earlier_suffix, d_later_suffix = _parts(d_suffix, size)
        d_earlier_total = d_total + torch.sum(d_later_prefix, dim=-2, keepdim=True)
        d_later_total = d_total + torch.sum(d_earlier_suffix, dim=-2, keepdim=True)
        for x, dx, d_block in zip(rows, d_rows, d_blocks, strict=True):
            by_pair = (*pairs, size, x.shape[-2], width)
            later = x.reshape(by_pair)[..., 1, :, :, :] * grow
            across = d_block[..., size:, :, :size].flatten(-3, -2)
            d_later = (across @ earlier_key).view_as(later)
            d_earlier_key += across.mT @ later.flatten(-3, -2)
            dx.view(by_pair)[..., 1, :, :, :].addcmul_(d_later, grow)
            d_later_prefix = d_later_prefix + torch.sum(d_later * later, dim=-2)
        d_key.view(*pairs, size, width)[..., 0, :, :].addcmul_(d_earlier_key, shrink)
        d_earlier_suffix = d_earlier_suffix + d_earlier_key * earlier_key
        d_prefix = _interleave(d_earlier_prefix, d_later_prefix, -3)
        d_suffix = _interleave(d_earlier_suffix, d_later_suffix, -3)
        d_total = _interleave(d_earlier_total, d_later_total, -3)
        d_blocks = [
            _interleave(x[..., :size, :, :size], x[..., size:, :, size:], -4) for x in d_blocks
        ]
    for x, dx, d_block in zip(rows, d_rows, d_blocks, strict=True):
        d_own = d_block.reshape(*x.shape[:-1], 1)
        dx.addcmul_(d_own, key[..., None, :])
        d_key += torch.sum(d_own * x, dim=-2)
    # A token's suffix is 0 whatever its log decay is.
    return (d_prefix + d_total).reshape(log_decay.shape)


def _halve(log_decay: Tensor) -> list[_Level]:
    """The exponents of every level, smallest blocks first."""
    *lead, length, width = log_decay.shape
    prefix = total = log_decay[..., None, :]
    suffix = torch.zeros_like(prefix)
    levels = []
    for size in (2**n for n in range(length.bit_length() - 1)):
        pairs = (*lead, length // (2 * size), 2)
        earlier_prefix, later_prefix = _halves(prefix.reshape(*pairs, size, width))
        earlier_suffix, later_suffix = _halves(suffix.reshape(*pairs, size, width))
        earlier_total, later_total = _halves(total.reshape(*pairs, 1, width))
        levels.append(_Level(later_prefix, earlier_suffix))
        prefix = torch.cat([earlier_prefix, later_prefix + earlier_total], dim=-2)
        suffix = torch.cat([earlier_suffix + later_total, later_suffix], dim=-2)
        total = earlier_total + later_total
    return levels


def _add_products_vjp(
    rows: list[Tensor],
    key: Tensor,
    d_products: list[Tensor],
    d_rows: list[Tensor],
    d_key: Tensor,
) -> None:
    """The transpose of `_products`, of several rows `[N, M, ...]`."""
    key, d_key = _matrices(key[..., None, :]), _matrices(d_key[..., None, :])
    for x, dx, d_product in zip(rows, d_rows, d_products, strict=True):
        _matrices(dx).baddbmm_(_matrices(d_product), key)
        d_key.baddbmm_(_matrices(d_product).mT, _matrices(x))


def _matrices(x: Tensor) -> Tensor:
    """`[N, M, C, R, D]` as `[N * M, C * R, D]`, which is a view."""
    chunks, states, length, group, width = x.shape
    return x.view(chunks * states, length * group, width)


def _parts(x: Tensor, size: int) -> tuple[Tensor, Tensor]:
    return x[..., :size, :], x[..., size:, :]


def _interleave(earlier: Tensor, later: Tensor, axis: int) -> Tensor:
    """Pairs of blocks as twice as many blocks, along what is `axis` of one of them."""
    return torch.stack([earlier, later], dim=axis).flatten(axis - 1, axis)
