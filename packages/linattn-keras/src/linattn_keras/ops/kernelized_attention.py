"""kernelized_attention on the tensors of any Keras backend."""

from collections.abc import Callable
from typing import Any

import linattn_core
from linattn_keras.ops._documentation import documented_as
from linattn_keras.ops._operator import run


@documented_as(linattn_core.kernelized_attention)
def kernelized_attention(
    query: Any,
    key: Any,
    value: Any,
    *,
    feature_map: str | Callable[[Any], Any] = "elu_plus_one",
    causal: bool = False,
    use_normalizer: bool = True,
    epsilon: float = 1e-6,
    mask: Any = None,
    segment_ids: Any = None,
    initial_state: Any = None,
    execution_mode: str = "auto",
    chunk_size: int = 64,
    native: bool | None = None,
) -> Any:
    tensors = {
        "query": query,
        "key": key,
        "value": value,
        "mask": mask,
        "segment_ids": segment_ids,
        "initial_state": initial_state,
    }
    arguments = {
        "feature_map": feature_map,
        "causal": causal,
        "use_normalizer": use_normalizer,
        "epsilon": epsilon,
        "execution_mode": execution_mode,
        "chunk_size": chunk_size,
    }
    return run("kernelized_attention", tensors, arguments, native)
