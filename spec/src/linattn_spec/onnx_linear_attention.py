"""The packing of the ONNX operator LinearAttention (ai.onnx, opset 27), equations (15)-(16)."""

from typing import TypedDict

import numpy as np

from linattn_spec.arrays import Array, Arrays
from linattn_spec.linear_attention import linear_attention, linear_attention_vjp


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
) -> tuple[Array, Array]:
    """`linear_attention` on the packed inputs of the operator; the results are not rounded.

    Args:
        query: `[B, T, q_num_heads * Dk]`.
        key: `[B, T, kv_num_heads * Dk]`; value: `[B, T, kv_num_heads * Dv]`.
        past_state: `[B, kv_num_heads, Dk, Dv]`, None for zeros.
        decay: `[B, T, kv_num_heads]` or `[B, T, kv_num_heads * Dk]`.
        beta: `[B, T, kv_num_heads]` or `[B, T, 1]`.
        scale: 0.0 for Dk ** -0.5.

    Returns:
        output `[B, T, q_num_heads * Dv]` and present_state `[B, kv_num_heads, Dk, Dv]`.
    """
    arguments = _unpack(query, key, value, past_state, decay, beta, q_num_heads, kv_num_heads)
    output, state = linear_attention(**arguments, update_rule=update_rule, scale=scale or None)
    return _pack(output), state


def onnx_linear_attention_vjp(
    query: Array,
    key: Array,
    value: Array,
    past_state: Array | None = None,
    decay: Array | None = None,
    beta: Array | None = None,
    *,
    output_cotangent: Array,
    present_state_cotangent: Array,
    q_num_heads: int,
    kv_num_heads: int,
    update_rule: str = "gated_delta",
    scale: float = 0.0,
) -> Arrays:
    """The gradient of the sum of cotangent * result over output and present_state."""
    arguments = _unpack(query, key, value, past_state, decay, beta, q_num_heads, kv_num_heads)
    gradient = linear_attention_vjp(
        **arguments,
        output_cotangent=_split(output_cotangent, q_num_heads),
        final_state_cotangent=present_state_cotangent,
        update_rule=update_rule,
        scale=scale or None,
    )
    inputs = {"query": query, "key": key, "value": value, "log_decay": decay, "beta": beta}
    packed = {
        "decay" if name == "log_decay" else name: gradient[name].reshape(np.shape(given))
        for name, given in inputs.items()
        if given is not None
    }
    return packed | {"past_state": gradient["initial_state"]}


class _Unpacked(TypedDict):
    query: Array
    key: Array
    value: Array
    log_decay: Array | None
    beta: Array | None
    initial_state: Array | None


def _unpack(
    query: Array,
    key: Array,
    value: Array,
    past_state: Array | None,
    decay: Array | None,
    beta: Array | None,
    q_num_heads: int,
    kv_num_heads: int,
) -> _Unpacked:
    if decay is not None and np.shape(decay)[2] != kv_num_heads:
        decay = _split(decay, kv_num_heads)  # (16)
    return {
        "query": _split(query, q_num_heads),  # (15)
        "key": _split(key, kv_num_heads),
        "value": _split(value, kv_num_heads),
        "log_decay": decay,
        "beta": beta,
        "initial_state": past_state,
    }


def _split(x: Array, heads: int) -> Array:
    """`[B, T, H * D]` as `[B, T, H, D]`."""
    x = np.asarray(x)
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads)


def _pack(x: Array) -> Array:
    """`[B, T, H, D]` as `[B, T, H * D]`."""
    return x.reshape(*x.shape[:2], x.shape[2] * x.shape[3])
