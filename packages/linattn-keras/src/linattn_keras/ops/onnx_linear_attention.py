"""onnx_linear_attention on the tensors of any Keras backend."""

from typing import Any

import linattn_core
from linattn_keras.ops._documentation import documented_as
from linattn_keras.ops._operator import run


@documented_as(linattn_core.onnx_linear_attention)
def onnx_linear_attention(
    query: Any,
    key: Any,
    value: Any,
    past_state: Any = None,
    decay: Any = None,
    beta: Any = None,
    *,
    q_num_heads: int,
    kv_num_heads: int,
    update_rule: str = "gated_delta",
    scale: float = 0.0,
    chunk_size: int = 64,
    native: bool | None = None,
) -> Any:
    tensors = {
        "query": query,
        "key": key,
        "value": value,
        "past_state": past_state,
        "decay": decay,
        "beta": beta,
    }
    arguments = {
        "q_num_heads": q_num_heads,
        "kv_num_heads": kv_num_heads,
        "update_rule": update_rule,
        "scale": scale,
        "chunk_size": chunk_size,
    }
    return run("onnx_linear_attention", tensors, arguments, native)
