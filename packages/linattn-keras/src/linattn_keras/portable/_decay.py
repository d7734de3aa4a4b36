"""Decayed products inside a chunk. Every exponent is a sum of log decays, never a difference.

A difference of cumulative sums overflows, cancels when a decay is strong, and is NaN for -inf.
"""

from typing import Any, NamedTuple

from keras import ops

from linattn_keras.portable._describe import sizes
from linattn_keras.portable._tokens import Tensor, transpose


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
        seen = _causal(sizes(key)[-2])[:, None]
        return ops.where(seen, _products(rows, key), 0.0), None
    return _per_key(rows, key, log_decay)


def decay_state(state: Tensor, log_decay: Tensor) -> Tensor:
    """exp(log_decay) * state, for a state `[..., K, Dv]` that decays `[..., K]` at every token.

    exp of a weak decay is a number just below 1 whose rounding is the same at every token, and adds
    up over thousands of them; what is lost, 1 - exp, is a small number that can be exact.
    """
    weak = log_decay > -0.5
    kept = ops.cast(weak, state.dtype)
    lost = ops.where(weak, ops.expm1(ops.where(weak, log_decay, 0.0)), ops.exp(log_decay))
    return kept[..., None] * state + lost[..., None] * state


def _per_key(rows: Tensor, key: Tensor, log_decay: Tensor) -> tuple[Tensor, Decays]:
    """Blocks of 1, 2, 4, ... tokens are paired.

    For a pair (earlier, later) the products of later rows with earlier keys decay from the key
    to its block's end and from the later block's start to the row, so they are one matmul.
    """
    *lead, length, group, width = sizes(rows)
    decay_width = sizes(log_decay)[-1]
    prefix, suffix, total = log_decay, ops.zeros_like(log_decay), log_decay
    products = ops.sum(rows * key[..., None, :], axis=-1, keepdims=True)
    size = 1
    while size < length:
        pairs = [*lead, length // (2 * size), 2]
        _, later_rows = _halves(rows, pairs, [size, group, width])
        earlier_key, _ = _halves(key, pairs, [size, width])
        earlier_prefix, later_prefix = _halves(prefix, pairs, [size, decay_width])
        earlier_suffix, later_suffix = _halves(suffix, pairs, [size, decay_width])
        earlier_total, later_total = _halves(total, pairs, [1, decay_width])
        # Not by broadcasting: jaxlib 0.10.2 crashes in the gradient's sum over the rows of a token.
        later_decay = ops.repeat(ops.exp(later_prefix)[..., None, :], group, axis=-2)
        across = _products(
            later_rows * later_decay,
            earlier_key * ops.exp(earlier_suffix),
        )
        earlier, later = _halves(products, pairs, [size, group, size])
        products = ops.concatenate(
            [
                ops.concatenate([earlier, ops.zeros_like(earlier)], axis=-1),
                ops.concatenate([across, later], axis=-1),
            ],
            axis=-3,
        )
        prefix = ops.concatenate([earlier_prefix, later_prefix + earlier_total], axis=-2)
        suffix = ops.concatenate([earlier_suffix + later_total, later_suffix], axis=-2)
        total = earlier_total + later_total
        size *= 2
    decays = Decays(
        from_start=ops.exp(ops.reshape(prefix, [*lead, length, decay_width])),
        to_end=ops.exp(ops.reshape(suffix, [*lead, length, decay_width])),
        whole=ops.exp(ops.reshape(total, [*lead, decay_width])),
    )
    return ops.reshape(products, [*lead, length, group, length]), decays


def _halves(x: Tensor, pairs: list[Any], block: list[int]) -> tuple[Tensor, Tensor]:
    """The earlier and the later block `[..., *block]` of every pair."""
    earlier, later = ops.unstack(ops.reshape(x, pairs + block), 2, axis=len(pairs) - 1)
    return earlier, later


def _products(rows: Tensor, key: Tensor) -> Tensor:
    """`[..., C, R, D]` by `[..., c, D]`: `[..., C, R, c]`, the R rows of a token in one matmul."""
    *lead, length, group, width = sizes(rows)
    products = ops.reshape(rows, [*lead, length * group, width]) @ transpose(key)
    return ops.reshape(products, [*lead, length, group, sizes(key)[-2]])


def _causal(length: int, diagonal: int = 0) -> Tensor:
    """True `[C, C]` where the column's token comes before the row's, or is it if diagonal is 0."""
    index = ops.arange(0, length)
    return index[:, None] + diagonal >= index
