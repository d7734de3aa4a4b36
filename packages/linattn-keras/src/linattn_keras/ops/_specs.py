"""The shapes and dtypes of every operator's results, for KerasTensors: checked, not computed."""

from typing import Any

from keras import KerasTensor

from linattn_core.checks import (
    check_epsilon,
    check_feature_map_input,
    check_kernelized_attention,
    check_linear_attention,
    check_linear_attention_step,
    check_mapped,
    check_onnx_linear_attention,
)
from linattn_core.dtypes import compute_dtype
from linattn_keras.ops._tensors import describe


def _linear_attention(query: Any, key: Any, value: Any, **arguments: Any) -> Any:
    check_linear_attention(describe, query, key, value, **arguments)
    return _results(query, key, value)


def _linear_attention_step(query: Any, key: Any, value: Any, state: Any, **arguments: Any) -> Any:
    check_linear_attention_step(describe, query, key, value, state, **arguments)
    return _results(query, key, value)


def _results(query: Any, key: Any, value: Any) -> tuple[KerasTensor, KerasTensor]:
    """The output and the state, for tensors with or without a time axis."""
    _check_known(2, query=query, key=key, value=value)
    *lead, query_heads, key_width = query.shape
    heads, width = value.shape[-2:]
    return (
        KerasTensor((*lead, max(query_heads, heads), width), _dtype(value)),
        KerasTensor((lead[0], heads, key_width, width), compute_dtype(_dtype(query))),
    )


def _kernelized_attention(
    query: Any, key: Any, value: Any, *, feature_map: Any, **arguments: Any
) -> Any:
    check_kernelized_attention(describe, query, key, value, feature_map=feature_map, **arguments)
    output, state = _results(query, key, value)
    if callable(feature_map):
        # As when it is computed: in the dtype that everything is computed in.
        wide = compute_dtype(_dtype(query))
        mapped = [feature_map(KerasTensor(x.shape, wide)) for x in (query, key)]
        check_mapped(describe, query, key, *mapped, arguments["initial_state"])
        batch, heads, _, width = state.shape
        state = KerasTensor((batch, heads, mapped[1].shape[-1], width), state.dtype)
    if not arguments["causal"]:
        return output, None
    if not arguments["use_normalizer"]:
        return output, (state,)
    return output, (state, KerasTensor(state.shape[:-1], state.dtype))


def _onnx_linear_attention(
    query: Any,
    key: Any,
    value: Any,
    past_state: Any,
    decay: Any,
    beta: Any,
    *,
    q_num_heads: int,
    kv_num_heads: int,
    **arguments: Any,
) -> Any:
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
        **arguments,
    )
    _check_known(1, query=query, key=key, value=value)
    batch, tokens, packed = query.shape
    key_width, width = packed // q_num_heads, value.shape[-1] // kv_num_heads
    state_dtype = _dtype(query if past_state is None else past_state)
    return (
        KerasTensor((batch, tokens, q_num_heads * width), _dtype(query)),
        KerasTensor((batch, kv_num_heads, key_width, width), state_dtype),
    )


def _elu_plus_one(x: Any) -> KerasTensor:
    check_feature_map_input(describe, x)
    return KerasTensor(x.shape, _dtype(x))


def _relu(x: Any, epsilon: Any) -> KerasTensor:
    check_feature_map_input(describe, x)
    check_epsilon(epsilon)
    return KerasTensor(x.shape, _dtype(x))


def _l2_normalize(x: Any, epsilon: Any) -> KerasTensor:
    check_feature_map_input(describe, x, "[..., D]")
    check_epsilon(epsilon)
    return KerasTensor(x.shape, _dtype(x))


def _dtype(x: Any) -> str:
    _, dtype = describe(x)
    return dtype


def _check_known(axes: int, **tensors: Any) -> None:
    for name, x in tensors.items():
        if None in tuple(x.shape[-axes:]):
            shape = ", ".join("?" if size is None else str(size) for size in x.shape)
            raise ValueError(f"{name} must have known sizes but for B and T, got [{shape}]")


SPECS = {
    "elu_plus_one": _elu_plus_one,
    "kernelized_attention": _kernelized_attention,
    "l2_normalize": _l2_normalize,
    "linear_attention": _linear_attention,
    "linear_attention_step": _linear_attention_step,
    "onnx_linear_attention": _onnx_linear_attention,
    "relu": _relu,
}
