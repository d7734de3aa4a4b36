"""linear_attention and linear_attention_step on the tensors of any Keras backend."""

from typing import Any

import linattn_core
from linattn_keras.ops._documentation import documented_as
from linattn_keras.ops._operator import run


@documented_as(linattn_core.linear_attention)
def linear_attention(
    query: Any,
    key: Any,
    value: Any,
    *,
    update_rule: str = "linear",
    log_decay: Any = None,
    beta: Any = None,
    initial_state: Any = None,
    mask: Any = None,
    segment_ids: Any = None,
    scale: Any = None,
    execution_mode: str = "auto",
    chunk_size: int = 64,
    native: bool | None = None,
) -> Any:
    tensors = {
        "query": query,
        "key": key,
        "value": value,
        "log_decay": log_decay,
        "beta": beta,
        "initial_state": initial_state,
        "mask": mask,
        "segment_ids": segment_ids,
    }
    arguments = {
        "update_rule": update_rule,
        "scale": scale,
        "execution_mode": execution_mode,
        "chunk_size": chunk_size,
    }
    return run("linear_attention", tensors, arguments, native)


@documented_as(linattn_core.linear_attention_step)
def linear_attention_step(
    query: Any,
    key: Any,
    value: Any,
    state: Any,
    *,
    update_rule: str = "linear",
    log_decay: Any = None,
    beta: Any = None,
    scale: Any = None,
    native: bool | None = None,
) -> Any:
    tensors = {
        "query": query,
        "key": key,
        "value": value,
        "state": state,
        "log_decay": log_decay,
        "beta": beta,
    }
    arguments = {"update_rule": update_rule, "scale": scale}
    return run("linear_attention_step", tensors, arguments, native)
