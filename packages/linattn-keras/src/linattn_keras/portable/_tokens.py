"""The arguments as every form takes them: cast, masked, segmented, grouped by state head."""

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from linattn_core.dtypes import compute_dtype
from linattn_keras.portable._describe import Tensor, check_known, dtype_name, sizes


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
        return Tokens(*(None if x is None else function(x) for x in self))


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
    check_known(query=query, key=key, value=value)
    dtype = wide_dtype(query)
    # Sizes that were unknown to the checks are taken to be the query's.
    batch, tokens, query_heads, key_width = sizes(query)
    key_heads, heads, value_width = sizes(key)[2], *sizes(value)[2:]
    mask = None if mask is None else ops.reshape(mask, [batch, tokens])

    query = keep(mask, ops.cast(query, dtype))
    query = query * number(key_width**-0.5 if scale is None else scale, dtype)
    query = repeat_heads(query, max(query_heads, heads))
    query = ops.reshape(query, [batch, tokens, heads, max(query_heads // heads, 1), key_width])
    key = ops.reshape(ops.cast(key, dtype), [batch, tokens, key_heads, key_width])
    key = repeat_heads(keep(mask, key), heads)
    value = ops.reshape(ops.cast(value, dtype), [batch, tokens, heads, value_width])
    value = keep(mask, value)
    if log_decay is not None:
        width = 1 if len(log_decay.shape) == 3 else key_width
        log_decay = ops.reshape(ops.cast(log_decay, dtype), [batch, tokens, heads, width])
        log_decay = keep(mask, log_decay)
    if segment_ids is not None:
        if log_decay is None:
            log_decay = ops.zeros_like(value[..., :1])
        first = starts(ops.reshape(segment_ids, [batch, tokens]))[..., None, None]
        log_decay = ops.where(first, float("-inf"), log_decay)
    if beta is not None:
        beta = ops.reshape(ops.cast(beta, dtype), [batch, tokens, sizes(beta)[2], 1])
        beta = repeat_heads(keep(mask, beta), heads)
    # The state varies over the mesh axes that key and value vary over, whatever it starts from.
    like = ops.einsum("bthk,bthv->bhkv", key[:, :1], value[:, :1])
    if initial_state is None:
        state = ops.zeros_like(like)
    else:
        state = ops.reshape(initial_state, [batch, heads, key_width, value_width])
        state = ops.cast(state, dtype) * ops.ones_like(like)
    return Tokens(query, key, value, log_decay, beta), state


def wide_dtype(x: Tensor) -> str:
    """The dtype to compute in for inputs like `x`."""
    return compute_dtype(dtype_name(x))


def number(x: Any, dtype: str) -> Any:
    """A scalar for tensors of `dtype`: a Python number takes theirs by itself."""
    return float(x) if isinstance(x, (int, float)) else ops.cast(x, dtype)


def keep(mask: Tensor | None, x: Tensor) -> Tensor:
    """`x` `[B, T, ...]` where the mask is True, 0 elsewhere, whatever `x` holds there."""
    if mask is None:
        return x
    mask = ops.reshape(mask, sizes(x)[:2] + [1] * (len(x.shape) - 2))
    return ops.where(mask, x, 0.0)


def starts(segment_ids: Tensor) -> Tensor:
    """True `[B, T]` at the first token of every segment but the first one."""
    changes = ops.not_equal(segment_ids[:, 1:], segment_ids[:, :-1])
    return ops.concatenate([ops.zeros_like(segment_ids[:, :1], dtype="bool"), changes], axis=1)


def repeat_heads(x: Tensor, heads: int) -> Tensor:
    """`[B, T, h, D]` as `[B, T, heads, D]`: each head repeated for its neighbours, not tiled."""
    if sizes(x)[2] == heads:
        return x
    batch, tokens, shared, width = sizes(x)
    repeated = ops.broadcast_to(x[:, :, :, None], [batch, tokens, shared, heads // shared, width])
    return ops.reshape(repeated, [batch, tokens, heads, width])


def append_tokens(x: Tensor, count: Any) -> Tensor:
    """`x` `[B, T, ...]` and `count` more tokens of zeros, which do nothing."""
    if isinstance(count, int) and count == 0:
        return x
    batch, _, *rest = sizes(x)
    return ops.concatenate([x, ops.zeros([batch, count, *rest], dtype_name(x))], axis=1)


def transpose(x: Tensor) -> Tensor:
    """`[..., C, D]` as `[..., D, C]`."""
    return ops.swapaxes(x, -1, -2)


def finish(output: Tensor, mask: Tensor | None, dtype: str) -> Tensor:
    """`[B, T, H, R, Dv]` as `[B, T, H * R, Dv]`, 0 at masked tokens, rounded once."""
    batch, tokens, heads, group, width = sizes(output)
    output = ops.reshape(output, [batch, tokens, heads * group, width])
    return ops.cast(keep(mask, output), dtype)
