"""onnx_linear_attention in keras.ops: the packed form of the ONNX operator."""

from keras import ops

import linattn_core
from linattn_core.checks import check_onnx_linear_attention
from linattn_keras.portable._describe import check_known, describe, sizes
from linattn_keras.portable._documentation import documented_as
from linattn_keras.portable._tokens import Tensor
from linattn_keras.portable.linear_attention import linear_attention


@documented_as(linattn_core.onnx_linear_attention)
def onnx_linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past_state: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    q_num_heads: int,
    kv_num_heads: int,
    update_rule: str = "gated_delta",
    scale: float = 0.0,
    chunk_size: int = 64,
) -> tuple[Tensor, Tensor]:
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
    check_known(query=query, key=key, value=value)
    if decay is not None:
        check_known(decay=decay)
    if decay is not None and sizes(decay)[2] != kv_num_heads:
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
    return _pack(output), ops.cast(state, state_dtype)


def _split(x: Tensor, heads: int) -> Tensor:
    """`[B, T, H * D]` as `[B, T, H, D]`."""
    batch, tokens, width = sizes(x)
    return ops.reshape(x, [batch, tokens, heads, width // heads])


def _pack(x: Tensor) -> Tensor:
    """`[B, T, H, D]` as `[B, T, H * D]`."""
    batch, tokens, heads, width = sizes(x)
    return ops.reshape(x, [batch, tokens, heads * width])
