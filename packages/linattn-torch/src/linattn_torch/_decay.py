"""Decayed products inside a chunk. Every exponent is a sum of log decays, never a difference.

A difference of cumulative sums overflows, cancels when a decay is strong, and is NaN for -inf.

Exponents are to base 2: torch.exp of a sum over a chunk, whose result is often subnormal, takes up
to a hundred times as long on a CPU, and torch.exp2 does not.
"""

from collections.abc import Iterator
from math import e, log2
from typing import NamedTuple

import torch

from linattn_torch._tokens import Tensor

# Inside blocks of this many tokens every pair has a sum of its own.
BLOCK = 8
LOG2_E = log2(e)


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
    in_blocks = (log_decay * LOG2_E).unflatten(-2, (count, size))
    sums = _segment_sums(in_blocks)  # [..., L, l, l + 1]
    inside = torch.exp2(sums)
    prefix, suffix = inside[..., :1], inside[..., -1, 1:]
    # Row I, column J + 2: over the blocks after J and before I.
    totals = torch.nn.functional.pad(sums[..., -1, :1], (0, 0, 1, 0))
    over = torch.exp2(_segment_sums(totals)).tril(1)  # 0 if I is not after J

    from_blocks = prefix * over[..., :-1, None, 1:]  # [..., L, l, 1 + L]
    factors = from_blocks[..., 1:, None] * suffix[..., None, None, :, :]  # [..., L, l, L, l]
    factors.diagonal(dim1=-4, dim2=-2).copy_(inside[..., 1:].tril().movedim(-3, -1))
    between = factors.reshape(*lead, length, length)

    decays = Decays(
        from_start=from_blocks[..., 0].reshape(*lead, length, 1),
        to_end=(suffix * over[..., -1, 2:, None]).reshape(*lead, length, 1),
        whole=over[..., -1, 1:2],
        between=between,
    )
    return tuple(_products(x, key) * between[..., None, :] for x in rows), decays


def _segment_sums(exponents: Tensor) -> Tensor:
    """`[..., C, 1]` as `[..., C, C + 1]`: sum_{j<=t<=i} at i and j, 0 where j > i."""
    *lead, length, _ = exponents.shape
    return exponents.expand(*lead, length, length + 1).tril().cumsum(dim=-2)


def _per_key(
    rows: tuple[Tensor, ...], key: Tensor, log_decay: Tensor
) -> tuple[tuple[Tensor, ...], Decays]:
    """One decay for each key dimension, by halving: blocks of 1, 2, 4, ... tokens are paired.

    For a pair (earlier, later) the products of later rows with earlier keys decay from the key
    to its block's end and from the later block's start to the row, so they are one matmul.
    """
    products = [[] for _ in rows]
    for sums in _block_sums(log_decay):
        if sums.size == key.shape[-2]:
            break
        grow, shrink = _pair_decays(sums)
        ended = _halves(key, sums.size)[0] * shrink
        for x, found in zip(rows, products, strict=True):
            started = _halves(x, sums.size, -3)[1] * grow[..., None, :]
            found.append(_products(started, ended))
    decays = Decays(
        from_start=torch.exp2(sums.prefix),
        to_end=torch.exp2(sums.suffix),
        whole=torch.exp2(sums.total[..., 0, :]),
    )
    own = (torch.sum(x * key[..., None, :], dim=-1) for x in rows)
    return tuple(_assembled(x, found) for x, found in zip(own, products, strict=True)), decays


class _BlockSums(NamedTuple):
    """Sums of the log2 decays of blocks of `size` tokens."""

    size: int
    prefix: Tensor  # from a block's start to after each token: [..., C, Dk]
    suffix: Tensor  # from after each token to its block's end: [..., C, Dk]
    total: Tensor  # [..., C / size, Dk]


def _block_sums(log_decay: Tensor) -> Iterator[_BlockSums]:
    """For blocks of 1, 2, 4, ... C tokens; the next ones are made in the place of these."""
    prefix = total = log_decay * LOG2_E
    suffix = torch.zeros_like(prefix)
    length, size = prefix.shape[-2], 1
    while size < length:
        yield _BlockSums(size, prefix, suffix, total)
        first, second = _halves(total, 1)
        total = (first + second)[..., 0, :]
        _halves(suffix, size)[0].add_(second)
        _halves(prefix, size)[1].add_(first)
        size *= 2
    yield _BlockSums(size, prefix, suffix, total)


def _pair_decays(sums: _BlockSums) -> tuple[Tensor, Tensor]:
    """What the later rows and the earlier keys of pairs of blocks decay by."""
    return (
        torch.exp2(_halves(sums.prefix, sums.size)[1]),
        torch.exp2(_halves(sums.suffix, sums.size)[0]),
    )


def _halves(x: Tensor, size: int, axis: int = -2) -> tuple[Tensor, Tensor]:
    """Views of the earlier and the later blocks of pairs: `[..., C / (2 size), size, Dk]` each.

    `axis` is where x `[..., C, Dk]` has its tokens.
    """
    pairs = x.unflatten(axis, (x.shape[axis] // (2 * size), 2, size))
    return pairs.select(axis - 1, 0), pairs.select(axis - 1, 1)


def _across(products: Tensor, size: int) -> Tensor:
    """Those of later rows and earlier keys: of `[..., C, R, C]` a view `[..., C/(2l), l, R, l]`."""
    earlier_keys = _halves(products, size, -1)[0]  # [..., C, R, C / (2l), l]
    blocks = _halves(earlier_keys, size, -4)[1]  # [..., C / (2l), l, R, C / (2l), l]
    return blocks.diagonal(dim1=-5, dim2=-2).movedim(-1, -4)


def _assembled(own: Tensor, pairs: list[Tensor]) -> Tensor:
    """Products `[..., C, R, C]` of each token's own, `[..., C, R]`, and of pairs of blocks."""
    if not pairs:
        return own[..., None]
    products = pairs[0].new_zeros(*own.shape, own.shape[-2])
    products.diagonal(dim1=-3, dim2=-1).copy_(own.mT)
    for found in pairs:
        _across(products, found.shape[-1]).copy_(found)
    return products


def _products(rows: Tensor, key: Tensor) -> Tensor:
    """`[..., C, R, D]` by `[..., c, D]`: `[..., C, R, c]`, the R rows of a token in one matmul."""
    *lead, length, group, width = rows.shape
    products = rows.reshape(*lead, length * group, width) @ key.mT
    return products.reshape(*lead, length, group, key.shape[-2])


def _causal(rows: int, columns: int, device: torch.device) -> Tensor:
    """True `[rows, columns]` where column <= row."""
    return torch.ones(rows, columns, dtype=torch.bool, device=device).tril()
