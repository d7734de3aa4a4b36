"""onnx_linear_attention on NumPy arrays: the packed form of the ONNX operator."""

from linattn_core._describe import describe
from linattn_core._tokens import Array
from linattn_core.checks import check_onnx_linear_attention
from linattn_core.linear_attention import linear_attention


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
    """The operator LinearAttention of ai.onnx, opset 27.

    The equations of `linear_attention` on packed inputs (equations (15)-(16)).

    Args:
        query: `[B, T, q_num_heads * Dk]`, float16, bfloat16 or float32.
        key: `[B, T, kv_num_heads * Dk]`, the dtype of query.
        value: `[B, T, kv_num_heads * Dv]`, the dtype of query.
        past_state: `[B, kv_num_heads, Dk, Dv]`, float16, bfloat16 or float32; None for zeros.
        decay: `[B, T, kv_num_heads]` or `[B, T, kv_num_heads * Dk]`, the dtype of query; the
            log_decay of the gated rules, None otherwise.
        beta: `[B, T, kv_num_heads]` or `[B, T, 1]`, the dtype of query; for the delta rules.
        q_num_heads: a positive multiple of kv_num_heads; neighbours share a state.
        kv_num_heads: the number of key and value heads.
        update_rule: "linear", "gated", "delta" or "gated_delta".
        scale: a number; 0.0 for Dk ** -0.5.
        chunk_size: an integer >= 1; does not change the results beyond rounding.

    Returns:
        output `[B, T, q_num_heads * Dv]` in the dtype of query, and present_state
        `[B, kv_num_heads, Dk, Dv]` in the dtype of past_state, or of query without one. Both are
        computed in float32 and rounded once.

    Raises:
        ValueError: a shape, head numbers that do not divide, a gate that the rule lacks or does
            not take, an unknown rule, or a chunk_size below 1.
        TypeError: a dtype that the operator does not take, or something that is not a tensor.

    References:
        ONNX operator LinearAttention, https://onnx.ai/onnx/operators/onnx__LinearAttention.html
    """
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
    return _pack(output), state.astype(state_dtype)


def _split(x: Array, heads: int) -> Array:
    """`[B, T, H * D]` as `[B, T, H, D]`."""
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads)


def _pack(x: Array) -> Array:
    """`[B, T, H, D]` as `[B, T, H * D]`."""
    return x.reshape(*x.shape[:2], x.shape[2] * x.shape[3])
