"""Decayed products inside a chunk. Every exponent is a sum of log decays, never a difference.

A difference of cumulative sums overflows, cancels when a decay is strong, and is NaN for -inf.
"""

from typing import NamedTuple

import torch

from linattn_torch._tokens import Tensor


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
        causal = _causal(key.shape[-2], key.device)
        return torch.where(causal[:, None], _products(rows, key), 0), None
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
    return kept[..., None] * state + lost[..., None] * state


def _per_head(rows: Tensor, key: Tensor, log_decay: Tensor) -> tuple[Tensor, Decays]:
    """One decay for the whole key: the plain products times exp of the segment sums."""
    length = key.shape[-2]
    # Column j sums what comes after token j - 1, column 0 everything: [..., C, C + 1].
    index = torch.arange(length + 1, device=key.device)
    sums = torch.cumsum(torch.where(index[:length, None] >= index, log_decay, 0), dim=-2)
    # Masked before exp: the gradient of a masked exponent is then 0 and not 0 * inf.
    factors = torch.exp(torch.where(_causal(length, key.device), sums[..., 1:], -torch.inf))
    decays = Decays(
        from_start=torch.exp(sums[..., :1]),
        to_end=torch.exp(sums[..., -1, 1:, None]),
        whole=torch.exp(sums[..., -1, :1]),
    )
    return _products(rows, key) * factors[..., None, :], decays


def _per_key(rows: Tensor, key: Tensor, log_decay: Tensor) -> tuple[Tensor, Decays]:
    """One decay for each key dimension, by halving: blocks of 1, 2, 4, ... tokens are paired.

    For a pair (earlier, later) the products of later rows with earlier keys decay from the key
    to its block's end and from the later block's start to the row, so they are one matmul.
    """
    *lead, length, group, width = rows.shape
    prefix, suffix, total = log_decay, torch.zeros_like(log_decay), log_decay
    products = torch.sum(rows * key[..., None, :], dim=-1, keepdim=True)
    size = 1
    while size < length:
        pairs = (*lead, length // (2 * size), 2)
        later_rows = rows.reshape(*pairs, size, group, width)[..., 1, :, :, :]
        earlier_key = key.reshape(*pairs, size, width)[..., 0, :, :]
        earlier_prefix, later_prefix = _halves(prefix.reshape(*pairs, size, width))
        earlier_suffix, later_suffix = _halves(suffix.reshape(*pairs, size, width))
        earlier_total, later_total = _halves(total.reshape(*pairs, 1, width))
        across = _products(
            later_rows * torch.exp(later_prefix)[..., None, :],
            earlier_key * torch.exp(earlier_suffix),
        )
        blocks = products.reshape(*pairs, size, group, size)
        earlier, later = blocks[..., 0, :, :, :], blocks[..., 1, :, :, :]
        products = torch.cat(
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
    return products.reshape(*lead, length, group, length), decays


def _halves(pairs: Tensor) -> tuple[Tensor, Tensor]:
    return pairs[..., 0, :, :], pairs[..., 1, :, :]


def _products(rows: Tensor, key: Tensor) -> Tensor:
    """`[..., C, R, D]` by `[..., c, D]`: `[..., C, R, c]`, the R rows of a token in one matmul."""
    *lead, length, group, width = rows.shape
    products = rows.reshape(*lead, length * group, width) @ key.mT
    return products.reshape(*lead, length, group, key.shape[-2])


def _causal(length: int, device: torch.device) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()
