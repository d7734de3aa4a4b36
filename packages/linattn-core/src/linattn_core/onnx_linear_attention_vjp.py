"""The gradients of onnx_linear_attention."""

from linattn_core._cotangents import PACKED_OUTPUT, PACKED_STATE, check_cotangent
from linattn_core._describe import describe
from linattn_core._tokens import Array
from linattn_core.checks import check_onnx_linear_attention
from linattn_core.linear_attention_vjp import linear_attention_vjp
from linattn_core.onnx_linear_attention import _split


def onnx_linear_attention_vjp(
    query: Array,
    key: Array,
    value: Array,
    past_state: Array | None = None,
    decay: Array | None = None,
    beta: Array | None = None,
    *,
    output_cotangent: Array | None = None,
    present_state_cotangent: Array | None = None,
    q_num_heads: int,
    kv_num_heads: int,
    update_rule: str = "gated_delta",
    scale: float = 0.0,
    chunk_size: int = 64,
) -> dict[str, Array]:
    """The gradients of `onnx_linear_attention`: those of `linear_attention` on packed inputs.

    Args:
        output_cotangent: `[B, T, q_num_heads * Dv]`, any real float dtype; None for zeros.
        present_state_cotangent: `[B, kv_num_heads, Dk, Dv]`, any real float dtype; None for zeros.
        others: as in `onnx_linear_attention`.

    Returns:
        By name, the gradient of every float argument that was given, in its shape and dtype, and
        of "past_state" also when none was given, then in float32. Computed in float32 and
        rounded once.

    Raises:
        ValueError, TypeError: as `onnx_linear_attention`, and for a cotangent of another shape.

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
    given = {"query": query, "key": key, "value": value, "decay": decay, "beta": beta}
    query = _split(query, q_num_heads)
    key, value = _split(key, kv_num_heads), _split(value, kv_num_heads)
    (batch, tokens), key_width, value_width = query.shape[:2], query.shape[3], value.shape[3]
    check_cotangent(
        describe,
        "output_cotangent",
        output_cotangent,
        PACKED_OUTPUT,
        (batch, tokens, q_num_heads * value_width),
    )
    check_cotangent(
        describe,
        "present_state_cotangent",
        present_state_cotangent,
        PACKED_STATE,
        (batch, kv_num_heads, key_width, value_width),
    )
    if decay is not None and decay.shape[2] != kv_num_heads:
        decay = _split(decay, kv_num_heads)
    if output_cotangent is not None:
        output_cotangent = _split(output_cotangent, q_num_heads)
    gradients = linear_attention_vjp(
        query,
        key,
        value,
        output_cotangent=output_cotangent,
        final_state_cotangent=present_state_cotangent,
        update_rule=update_rule,
        log_decay=decay,
        beta=beta,
        initial_state=past_state,
        scale=None if scale == 0 else scale,
        chunk_size=chunk_size,
    )
    if decay is not None:
        gradients["decay"] = gradients.pop("log_decay")
    packed = {n: gradients[n].reshape(x.shape) for n, x in given.items() if x is not None}
    return packed | {"past_state": gradients["initial_state"]}
