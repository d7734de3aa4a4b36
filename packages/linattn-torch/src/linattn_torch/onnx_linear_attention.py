"""onnx_linear_attention on torch tensors: the packed form of the ONNX operator."""

import linattn_core
from linattn_core.checks import check_onnx_linear_attention
from linattn_torch._describe import describe
from linattn_torch._documentation import documented_as
from linattn_torch._tokens import Tensor
from linattn_torch.linear_attention import linear_attention


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
    return _pack(output), state.to(state_dtype)


def _split(x: Tensor, heads: int) -> Tensor:
    """`[B, T, H * D]` as `[B, T, H, D]`."""
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads)


def _pack(x: Tensor) -> Tensor:
    """`[B, T, H, D]` as `[B, T, H * D]`."""
    return x.reshape(*x.shape[:2], x.shape[2] * x.shape[3])
