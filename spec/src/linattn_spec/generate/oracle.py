"""The definitions as an adapter (see conformance.py): the oracle of every value case."""

from collections.abc import Callable
from typing import Any

from linattn_spec import feature_maps
from linattn_spec.arrays import Array, Arrays, wide
from linattn_spec.kernelized_attention import kernelized_attention, kernelized_attention_vjp
from linattn_spec.linear_attention import (
    linear_attention,
    linear_attention_step,
    linear_attention_vjp,
)
from linattn_spec.onnx_linear_attention import onnx_linear_attention, onnx_linear_attention_vjp

Inputs = dict[str, Any]

# How a result is computed, not what it is.
_EXECUTION = ("chunk_size", "execution_mode")


def oracle(
    operator: str, inputs: Inputs, arguments: dict[str, Any], cotangents: Arrays | None = None
) -> Arrays:
    """The float64 results of `operator`, and the gradients of `inputs` when given cotangents."""
    arguments = {name: x for name, x in arguments.items() if name not in _EXECUTION}
    results = _FORWARD[operator](inputs, arguments)
    if cotangents is None:
        return results
    gradients = _BACKWARD[operator](inputs, arguments, cotangents)
    for name, given in inputs.items():
        if isinstance(given, tuple):
            results |= {f"gradient.{name}.{i}": x for i, x in enumerate(gradients[name])}
        elif name not in ("mask", "segment_ids"):
            results[f"gradient.{name}"] = gradients[name]
    return results


def _linear_attention(inputs: Inputs, arguments: dict[str, Any]) -> Arrays:
    output, final_state = linear_attention(**inputs, **arguments)
    return {"output": output, "final_state": final_state}


def _linear_attention_vjp(
    inputs: Inputs, arguments: dict[str, Any], cotangents: Arrays
) -> dict[str, Any]:
    return linear_attention_vjp(
        **inputs,
        **arguments,
        output_cotangent=cotangents["output"],
        final_state_cotangent=cotangents["final_state"],
    )


def _linear_attention_step(inputs: Inputs, arguments: dict[str, Any]) -> Arrays:
    output, final_state = linear_attention_step(**inputs, **arguments)
    return {"output": output, "final_state": final_state}


def _linear_attention_step_vjp(
    inputs: Inputs, arguments: dict[str, Any], cotangents: Arrays
) -> dict[str, Any]:
    """A step is T = 1 without the time axis."""
    token = {name: x if name == "state" else x[:, None] for name, x in inputs.items()}
    token["initial_state"] = token.pop("state")
    output = cotangents["output"][:, None]
    gradients = _linear_attention_vjp(token, arguments, cotangents | {"output": output})
    state = gradients.pop("initial_state")
    return {name: x[:, 0] for name, x in gradients.items()} | {"state": state}


def _kernelized_attention(inputs: Inputs, arguments: dict[str, Any]) -> Arrays:
    output, state = kernelized_attention(**inputs, **arguments)
    return {"output": output} | {f"final_state.{i}": x for i, x in enumerate(state or ())}


def _kernelized_attention_vjp(
    inputs: Inputs, arguments: dict[str, Any], cotangents: Arrays
) -> dict[str, Any]:
    state = tuple(cotangents[f"final_state.{i}"] for i in range(len(cotangents) - 1))
    return kernelized_attention_vjp(
        **inputs,
        **arguments,
        output_cotangent=cotangents["output"],
        final_state_cotangent=state or None,
    )


def _onnx_linear_attention(inputs: Inputs, arguments: dict[str, Any]) -> Arrays:
    output, present_state = onnx_linear_attention(**inputs, **arguments)
    return {"output": output, "present_state": present_state}


def _onnx_linear_attention_vjp(
    inputs: Inputs, arguments: dict[str, Any], cotangents: Arrays
) -> dict[str, Any]:
    return onnx_linear_attention_vjp(
        **inputs,
        **arguments,
        output_cotangent=cotangents["output"],
        present_state_cotangent=cotangents["present_state"],
    )


def _elu_plus_one_vjp(
    inputs: Inputs, arguments: dict[str, Any], cotangents: Arrays
) -> dict[str, Any]:
    return {"x": cotangents["output"] * feature_maps.elu_plus_one_derivative(wide(inputs["x"]))}


def _relu_vjp(inputs: Inputs, arguments: dict[str, Any], cotangents: Arrays) -> dict[str, Any]:
    return {"x": cotangents["output"] * feature_maps.relu_derivative(wide(inputs["x"]))}


def _l2_normalize_vjp(
    inputs: Inputs, arguments: dict[str, Any], cotangents: Arrays
) -> dict[str, Any]:
    gradient = feature_maps.l2_normalize_vjp(wide(inputs["x"]), cotangents["output"], **arguments)
    return {"x": gradient}


def _of_x(function: Callable[..., Array]) -> Callable[..., Arrays]:
    return lambda inputs, arguments: {"output": function(wide(inputs["x"]), **arguments)}


_FORWARD = {
    "linear_attention": _linear_attention,
    "linear_attention_step": _linear_attention_step,
    "kernelized_attention": _kernelized_attention,
    "onnx_linear_attention": _onnx_linear_attention,
    "elu_plus_one": _of_x(feature_maps.elu_plus_one),
    "relu": _of_x(feature_maps.relu),
    "l2_normalize": _of_x(feature_maps.l2_normalize),
}
_BACKWARD = {
    "linear_attention": _linear_attention_vjp,
    "linear_attention_step": _linear_attention_step_vjp,
    "kernelized_attention": _kernelized_attention_vjp,
    "onnx_linear_attention": _onnx_linear_attention_vjp,
    "elu_plus_one": _elu_plus_one_vjp,
    "relu": _relu_vjp,
    "l2_normalize": _l2_normalize_vjp,
}
