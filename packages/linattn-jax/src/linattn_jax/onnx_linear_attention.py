"""onnx_linear_attention on JAX arrays: the packed form of the ONNX operator."""

import jax
import jax.numpy as jnp

import linattn_core
from linattn_core.checks import check_onnx_linear_attention
from linattn_jax._describe import describe
from linattn_jax._documentation import documented_as
from linattn_jax._tokens import Array
from linattn_jax.linear_attention import linear_attention


@documented_as(linattn_core.onnx_linear_attention)
def onnx_linear_attention(
    query: Array,
    key: Array,
    value: Array,
    past_state: Array | None = None,
    decay: Array | None = None,
    beta: Array | None = None,
    *,
    q_num_heads: int,
    kv_num_heads: int,
    update_rule: str = "gated_delta",
    scale: float = 0.0,
    chunk_size: int = 64,
) -> tuple[Array, Array]:
    check_onnx_linear_attention(
        describe,
        query,
        key,
        value,
        past_state,
        decay,
        beta,
        q_num_heads=q_num_heads,
        kv_num_heads=kv_num_heads,
        update_rule=update_rule,
        scale=scale,
        chunk_size=chunk_size,
    )
    query, key, value, past_state, decay, beta = jax.tree.map(
        jnp.asarray, (query, key, value, past_state, decay, beta)
    )
    if decay is not None and decay.shape[2] != kv_num_heads:
        decay = _split(decay, kv_num_heads)
    output, state = linear_attention(
        _split(query, q_num_heads),
        _split(key, kv_num_heads),
        _split(value, kv_num_heads),
        update_rule=update_rule,
        log_decay=decay,
        beta=beta,
        initial_state=past_state,
        scale=None if scale == 0 else scale,
        chunk_size=chunk_size,
    )
    state_dtype = query.dtype if past_state is None else past_state.dtype
    return _pack(output), state.astype(state_dtype)


def _split(x: Array, heads: int) -> Array:
    """`[B, T, H * D]` as `[B, T, H, D]`."""
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads)


def _pack(x: Array) -> Array:
    """`[B, T, H, D]` as `[B, T, H * D]`."""
    return x.reshape(*x.shape[:2], x.shape[2] * x.shape[3])
