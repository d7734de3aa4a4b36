"""The arguments as every form takes them: cast, masked, segmented, grouped by state head."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from linattn_core.dtypes import compute_dtype
from linattn_torch._describe import describe

Tensor = torch.Tensor


class Tokens(NamedTuple):
    """One sequence, H = Hv state heads, R query heads reading each. All in the compute dtype.

    query `[B, T, H, R, Dk]`, scaled; key `[B, T, H, Dk]`; value `[B, T, H, Dv]`;
    log_decay `[B, T, H, 1]` or `[B, T, H, Dk]`, None for no decay;
    beta `[B, T, H, 1]`, None for no delta correction.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    log_decay: Tensor | None
    beta: Tensor | None

    def map(self, function: Callable[[Tensor], Tensor]) -> "Tokens":
        """`function` of every tensor that is there."""
        return Tokens(
            function(self.query),
            function(self.key),
            function(self.value),
            None if self.log_decay is None else function(self.log_decay),
            None if self.beta is None else function(self.beta),
        )


def prepare(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    log_decay: Tensor | None,
    beta: Tensor | None,
    initial_state: Tensor | None,
    mask: Tensor | None,
    segment_ids: Tensor | None,
    scale: Any,
) -> tuple[Tokens, Tensor]:
    """Checked arguments as Tokens and the initial state `[B, H, Dk, Dv]`.

    A masked token becomes one that does nothing: key, value, log_decay and beta are 0 there
    (by selection, so that NaN stays out). A segment starts with a log decay of -inf.
    """
    dtype = wide_dtype(query)
    batch, tokens, query_heads, key_width = query.shape
    heads, value_width = value.shape[2:]

    query = keep(mask, query.to(dtype)) * (key_width**-0.5 if scale is None else scale)
    query = repeat_heads(query, max(query_heads, heads))
    query = query.reshape(batch, tokens, heads, max(query_heads // heads, 1), key_width)
    key = repeat_heads(keep(mask, key.to(dtype)), heads)
    value = keep(mask, value.to(dtype))
    if log_decay is not None:
        log_decay = keep(mask, log_decay).to(dtype)
        log_decay = log_decay[..., None] if log_decay.ndim == 3 else log_decay
    if segment_ids is not None:
        if log_decay is None:
            log_decay = value.new_zeros(batch, tokens, heads, 1)
        log_decay = torch.where(starts(segment_ids)[..., None, None], -torch.inf, log_decay)
    if beta is not None:
        beta = keep(mask, beta).to(dtype)
        beta = beta.expand(batch, tokens, heads)[..., None]
    if initial_state is None:
        state = value.new_zeros(batch, heads, key_width, value_width)
    else:
        state = initial_state.to(dtype)
    return Tokens(query, key, value, log_decay, beta), state


def wide_dtype(x: Tensor) -> torch.dtype:
    """The dtype to compute in for inputs like `x`."""
    return getattr(torch, compute_dtype(describe(x)[1]))


def keep(mask: Tensor | None, x: Tensor) -> Tensor:
    """`x` `[B, T, ...]` where the mask is True, 0 elsewhere, whatever `x` holds there."""
    if mask is None:
        return x
    return torch.where(mask.reshape(mask.shape + (1,) * (x.ndim - 2)), x, 0)


def starts(segment_ids: Tensor) -> Tensor:
    """True `[B, T]` at the first token of every segment but the first one."""
    later = torch.arange(segment_ids.shape[1], device=segment_ids.device) > 0
    return (segment_ids != segment_ids.roll(1, dims=1)) & later


def repeat_heads(x: Tensor, heads: int) -> Tensor:
    """`[B, T, h, D]` as `[B, T, heads, D]`: each head repeated for its neighbours, not tiled."""
    if x.shape[2] == heads:
        return x
    return torch.repeat_interleave(x, heads // x.shape[2], dim=2)


def finish(output: Tensor, mask: Tensor | None, dtype: torch.dtype) -> Tensor:
    """`[B, T, H, R, Dv]` as `[B, T, H * R, Dv]`, 0 at masked tokens, rounded once."""
    batch, tokens, heads, group, width = output.shape
    return keep(mask, output.reshape(batch, tokens, heads * group, width)).to(dtype)
