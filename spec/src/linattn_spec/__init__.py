"""linattn-spec: the definition of linear attention, golden fixtures and a conformance runner."""

from linattn_spec.complex_step import complex_step_vjp
from linattn_spec.feature_maps import elu_plus_one, l2_normalize, l2_normalize_vjp, relu
from linattn_spec.kernelized_attention import kernelized_attention, kernelized_attention_vjp
from linattn_spec.linear_attention import (
    UPDATE_RULES,
    linear_attention,
    linear_attention_step,
    linear_attention_vjp,
)
from linattn_spec.onnx_linear_attention import onnx_linear_attention, onnx_linear_attention_vjp

__version__ = "0.1.0"

__all__ = [
    "UPDATE_RULES",
    "complex_step_vjp",
    "elu_plus_one",
    "kernelized_attention",
    "kernelized_attention_vjp",
    "l2_normalize",
    "l2_normalize_vjp",
    "linear_attention",
    "linear_attention_step",
    "linear_attention_vjp",
    "onnx_linear_attention",
    "onnx_linear_attention_vjp",
    "relu",
]
