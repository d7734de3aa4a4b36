"""Decayed products inside a chunk. Every exponent is a sum of log decays, never a difference.

A difference of cumulative sums overflows, cancels when a decay is strong, and is NaN for -inf.
"""

from typing import NamedTuple

import torch

from linattn_torch._tokens import Tensor

# Inside blocks of this many tokens every pair has a sum of its own.
BLOCK = 8


class Decays(NamedTuple):
    """What the tokens of a chunk of C decay by; K is 1 (per head) or Dk (per key)."""

    from_start: Tensor  # [..., C, K]: from the chunk's start to after each token
    to_end: Tensor  # [..., C, K]: from after each token to the chunk's end
    whole: Tensor  # [..., K]: over the whole chunk
    between: Tensor | None = None  # per head: [..., C, C], from each token to each later one, or 0


def decayed_products(
    rows: tuple[Tensor, ...], key: Tensor, log_decay: Tensor | None
) -> tuple[tuple[Tensor, ...], Decays | None]:
    """P_irj = sum_d rows_ird key_jd exp(sum_{j<t<=i} log_decay_td) for j <= i, else 0.

    Args:
        rows: each `[..., C, R, Dk]`.
        key: `[..., C, Dk]`.
        log_decay: `[..., C, 1]`, `[..., C, Dk]`, or None for no decay.

    Returns:
        P `[..., C, R, C]` of each rows, and the decays, None for no decay.
    """
    if log_decay is None:
        causal = _causal(key.shape[-2], key.shape[-2], key.device)[:, None]
        return tuple(torch.where(causal, _products(x, key), 0) for x in rows), None
    if log_decay.shape[-1] == 1:
        return _per_head(rows, key, log_decay)
    return _per_key(rows, key, log_decay)


def decay_state(state: Tensor, log_decay: Tensor) -> Tensor:
    """exp(log_decay) * state, for a state `[..., K, Dv]` that decays `[..., K]` at every token.

    exp of a weak decay is a number just below 1 whose rounding is the same at every token, and adds
    up over thousands of them; what is lost, 1 - exp, is a small number that can be exact.
    """
    weak = log_decay > -0.5
    kept = weak.to(state.dtype)
    lost = torch.where(weak, torch.expm1(torch.where(weak, log_decay, 0)), torch.exp(log_decay))
    return torch.addcmul(kept[..., None] * state, lost[..., None], state)


def _per_head(
    rows: tuple[Tensor, ...], key: Tensor, log_decay: Tensor
) -> tuple[tuple[Tensor, ...], Decays]:
    """One decay for the whole key: the plain products, times what decays from each key to each row.

    Inside a block of a few tokens that is exp of a sum. From one block to a later one it is a
    product of three: to the end of the earlier one, over those between, from the later one's start.
    """
    *lead, length, _ = log_decay.shape
    size = min(BLOCK, length)
    count = length // size
    sums = _segment_sums(log_decay.unflatten(-2, (count, size)))  # [..., L, l, l + 1]
    inside = torch.exp(sums)
    prefix, suffix = inside[..., :1], inside[..., -1, 1:]
    # Row I, column J + 2: over the blocks after J and before I, 0 if I is not after J.
    totals = torch.nn.functional.pad(sums[..., -1, :1], (0, 0, 1, 0))
    reached = _causal(count + 1, count + 2, key.device, 1)
    over = torch.where(reached, torch.exp(_segment_sums(totals)), 0)

    from_blocks = prefix * over[..., :-1, None, 1:]  # [..., L, l, 1 + L]
    factors = from_blocks[..., 1:, None] * suffix[..., None, None, :, :]  # [..., L, l, L, l]
    same = torch.where(_causal(size, size, key.device), inside[..., 1:], 0)
    factors.diagonal(dim1=-4, dim2=-2).copy_(same.movedim(-3, -1))
    between = factors.reshape(*lead, length, length)

    decays = Decays(
        from_start=from_blocks[..., 0].reshape(*lead, length, 1),
        to_end=(suffix * over[..., -1, 2:, None]).reshape(*lead, length, 1),
        whole=over[..., -1, 1:2],
        between=between,
    )
    return tuple(_products(x, key) * between[..., None, :] for x in rows), decays


def _segment_sums(log_decay: Tensor) -> Tensor:
    """`[..., C, 1]` as `[..., C, C + 1]`: sum_{j<=t<=i} at i and j, 0 where j > i."""
    length = log_decay.shape[-2]
    seen = _causal(length, length + 1, log_decay.device)
    return torch.cumsum(torch.where(seen, log_decay, 0), dim=-2)


def _per_key(
    rows: tuple[Tensor, ...], key: Tensor, log_decay: Tensor
) -> tuple[tuple[Tensor, ...], Decays]:
    """One decay for each key dimension, by halving: blocks of 1, 2, 4, ... tokens are paired.

    For a pair (earlier, later) the products of later rows with earlier keys decay from the key
    to its block's end and from the later block's start to the row, so they are one matmul.
    """
    *lead, length, width = key.shape
    prefix, suffix, total = log_decay, torch.zeros_like(log_decay), log_decay
    products = [torch.sum(x * key[..., None, :], dim=-1, keepdim=True) for x in rows]
    size = 1
    while size < length:
        pairs = (*lead, length // (2 * size), 2)
        earlier_key = key.reshape(*pairs, size, width)[..., 0, :, :]
        earlier_prefix, later_prefix = _halves(prefix.reshape(*pairs, size, width))
        earlier_suffix, later_suffix = _halves(suffix.reshape(*pairs, size, width))
        earlier_total, later_total = _halves(total.reshape(*pairs, 1, width))
        from_start = torch.exp(later_prefix)[..., None, :]
        ended = earlier_key * torch.exp(earlier_suffix)
        for n, x in enumerate(rows):
            group = x.shape[-2]
            later_rows = x.reshape(*pairs, size, group, width)[..., 1, :, :, :]
            across = _products(later_rows * from_start, ended)
            blocks = products[n].reshape(*pairs, size, group, size)
            earlier, later = blocks[..., 0, :, :, :], blocks[..., 1, :, :, :]
            products[n] = torch.cat(
                [
                    torch.cat([earlier, torch.zeros_like(earlier)], dim=-1),
                    torch.cat([across, later], dim=-1),
                ],
                dim=-3,
            )
        prefix = torch.cat([earlier_prefix, later_prefix + earlier_total], dim=-2)
        suffix = torch.cat([earlier_suffix + later_total, later_suffix], dim=-2)
        total = earlier_total + later_total
        size *= 2
    decays = Decays(
        from_start=torch.exp(prefix.reshape(*lead, length, width)),
        to_end=torch.exp(suffix.reshape(*lead, length, width)),
        whole=torch.exp(total.reshape(*lead, width)),
    )
    groups = (x.shape[-2] for x in rows)
    pairs = zip(products, groups, strict=True)
    return tuple(x.reshape(*lead, length, group, length) for x, group in pairs), decays


def _halves(pairs: Tensor) -> tuple[Tensor, Tensor]:
    return pairs[..., 0, :, :], pairs[..., 1, :, :]


def _products(rows: Tensor, key: Tensor) -> Tensor:
    """`[..., C, R, D]` by `[..., c, D]`: `[..., C, R, c]`, the R rows of a token in one matmul."""
    *lead, length, group, width = rows.shape
    products = rows.reshape(*lead, length * group, width) @ key.mT
    return products.reshape(*lead, length, group, key.shape[-2])


def _causal(rows: int, columns: int, device: torch.device, diagonal: int = 0) -> Tensor:
    """True `[rows, columns]` where column - row <= diagonal."""
    return torch.ones(rows, columns, dtype=torch.bool, device=device).tril(diagonal)
