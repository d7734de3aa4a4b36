"""The arguments as every form takes them: cast, masked, segmented, grouped by state head."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from linattn_core.dtypes import compute_dtype
from linattn_jax._precision import einsum

Array = jax.Array


class Tokens(NamedTuple):
    """One sequence, H = Hv state heads, R query heads reading each. All in the compute dtype.

    query `[B, T, H, R, Dk]`, scaled; key `[B, T, H, Dk]`; value `[B, T, H, Dv]`;
    log_decay `[B, T, H, 1]` or `[B, T, H, Dk]`, None for no decay;
    beta `[B, T, H, 1]`, None for no delta correction.
    """

    query: Array
    key: Array
    value: Array
    log_decay: Array | None
    beta: Array | None

    def map(self, function: Callable[[Array], Array]) -> "Tokens":
        """`function` of every array that is there."""
        return Tokens(
            function(self.query),
            function(self.key),
            function(self.value),
            None if self.log_decay is None else function(self.log_decay),
            None if self.beta is None else function(self.beta),
        )


def prepare(
    query: Array,
    key: Array,
    value: Array,
    *,
    log_decay: Array | None,
    beta: Array | None,
    initial_state: Array | None,
    mask: Array | None,
    segment_ids: Array | None,
    scale: Any,
) -> tuple[Tokens, Array]:
    """Checked arguments as Tokens and the initial state `[B, H, Dk, Dv]`.

    A masked token becomes one that does nothing: key, value, log_decay and beta are 0 there
    (by selection, so that NaN stays out). A segment starts with a log decay of -inf.
    """
    dtype = wide_dtype(query)
    batch, tokens, query_heads, key_width = query.shape
    heads = value.shape[2]

    scale = jnp.asarray(key_width**-0.5 if scale is None else scale, dtype)
    query = repeat_heads(keep(mask, query.astype(dtype)) * scale, max(query_heads, heads))
    query = query.reshape(batch, tokens, heads, max(query_heads // heads, 1), key_width)
    key = repeat_heads(keep(mask, key.astype(dtype)), heads)
    value = keep(mask, value.astype(dtype))
    if log_decay is not None:
        log_decay = keep(mask, log_decay).astype(dtype)
        log_decay = log_decay[..., None] if log_decay.ndim == 3 else log_decay
    if segment_ids is not None:
        if log_decay is None:
            log_decay = jnp.zeros_like(value[..., :1])
        log_decay = jnp.where(starts(segment_ids)[..., None, None], -jnp.inf, log_decay)
    if beta is not None:
        beta = keep(mask, beta).astype(dtype)
        beta = jnp.broadcast_to(beta, (batch, tokens, heads))[..., None]
    # The state varies over the mesh axes that key and value vary over, whatever it starts from.
    like = einsum("bthk,bthv->bhkv", key[:, :1], value[:, :1])
    if initial_state is None:
        state = jnp.zeros_like(like)
    else:
        state = initial_state.astype(dtype) * jnp.ones_like(like)
    return Tokens(query, key, value, log_decay, beta), state


def wide_dtype(x: Array) -> jnp.dtype:
    """The dtype to compute in for inputs like `x`."""
    return jnp.dtype(compute_dtype(x.dtype.name))


def keep(mask: Array | None, x: Array) -> Array:
    """`x` `[B, T, ...]` where the mask is True, 0 elsewhere, whatever `x` holds there."""
    if mask is None:
        return x
    return jnp.where(mask.reshape(mask.shape + (1,) * (x.ndim - 2)), x, 0)


def starts(segment_ids: Array) -> Array:
    """True `[B, T]` at the first token of every segment but the first one."""
    changes = segment_ids[:, 1:] != segment_ids[:, :-1]
    return jnp.concatenate([jnp.zeros_like(segment_ids[:, :1], bool), changes], axis=1)


def repeat_heads(x: Array, heads: int) -> Array:
    """`[B, T, h, D]` as `[B, T, heads, D]`: each head repeated for its neighbours, not tiled."""
    if x.shape[2] == heads:
        return x
    batch, tokens, shared, width = x.shape
    repeated = (batch, tokens, shared, heads // shared, width)
    # Not jnp.repeat, which does not know how to shard its result on a mesh of explicit axes.
    return jnp.broadcast_to(x[:, :, :, None], repeated).reshape(batch, tokens, heads, width)


def finish(output: Array, mask: Array | None, dtype: jnp.dtype) -> Array:
    """`[B, T, H, R, Dv]` as `[B, T, H * R, Dv]`, 0 at masked tokens, rounded once."""
    batch, tokens, heads, group, width = output.shape
    return keep(mask, output.reshape(batch, tokens, heads * group, width)).astype(dtype)
