"""The transpose of decayed_products, with the same sums of log decays and no difference.

What is added up for one log decay holds exp of it as a factor, so the gradient keeps its relative
precision under the strongest decay and is exactly 0 at -inf. (The identity query * d_query -
key * d_key gives the same number as a difference of large ones.)
"""

import torch

from linattn_torch._decay import Decays, _across, _block_sums, _causal, _halves, _pair_decays
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
        d_exponents: of what the decays are exp of, for each key, and written over; None for no
            decay.
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
    length = key.shape[-2]
    d_prefix, d_suffix, d_total, _ = d_exponents
    d_total = d_total[..., None, :]  # [..., C / size, Dk]
    levels = [_pair_decays(sums) for sums in _block_sums(log_decay) if sums.size < length]
    for grow, shrink in reversed(levels):
        size = grow.shape[-2]
        _, d_later_prefix = _halves(d_prefix, size)
        d_earlier_suffix, _ = _halves(d_suffix, size)
        d_totals = torch.stack([d_later_prefix.sum(dim=-2), d_earlier_suffix.sum(dim=-2)], dim=-2)
        d_total = (d_totals + d_total[..., None, :]).flatten(-3, -2)

        ended = _halves(key, size)[0] * shrink
        d_ended = torch.zeros_like(ended)
        for x, dx, d_product in zip(rows, d_rows, d_products, strict=True):
            started = _halves(x, size, -3)[1] * grow[..., None, :]
            d_pairs = _across(d_product, size).flatten(-3, -2)
            d_started = (d_pairs @ ended).view_as(started)
            _batch(d_ended).baddbmm_(_batch(d_pairs).mT, _batch(started.flatten(-3, -2)))
            _halves(dx, size, -3)[1].addcmul_(d_started, grow[..., None, :])
            for n in range(x.shape[-2]):
                d_later_prefix.addcmul_(d_started[..., n, :], started[..., n, :])
        _halves(d_key, size)[0].addcmul_(d_ended, shrink)
        d_earlier_suffix.addcmul_(d_ended, ended)
    for x, dx, d_product in zip(rows, d_rows, d_products, strict=True):
        d_own = d_product.diagonal(dim1=-3, dim2=-1).mT[..., None]
        dx.addcmul_(d_own, key[..., None, :])
        d_key += torch.sum(d_own * x, dim=-2)
    # A token's suffix is 0 whatever its log decay is.
    return d_prefix.add_(d_total)


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


def _batch(x: Tensor) -> Tensor:
    """`[..., C, D]` as one batch of matrices."""
    return x.flatten(0, -3)
