"""linattn-core: linear attention on NumPy arrays, and what every linattn package shares."""

from linattn_core.feature_maps import elu_plus_one, l2_normalize, relu
from linattn_core.feature_maps_vjp import elu_plus_one_vjp, l2_normalize_vjp, relu_vjp
from linattn_core.kernelized_attention import kernelized_attention
from linattn_core.kernelized_attention_vjp import kernelized_attention_vjp
from linattn_core.linear_attention import linear_attention, linear_attention_step
from linattn_core.linear_attention_vjp import linear_attention_step_vjp, linear_attention_vjp
from linattn_core.onnx_linear_attention import onnx_linear_attention
from linattn_core.onnx_linear_attention_vjp import onnx_linear_attention_vjp

__version__ = "0.1.0"

__all__ = [
    "elu_plus_one",
    "elu_plus_one_vjp",
    "kernelized_attention",
    "kernelized_attention_vjp",
    "l2_normalize",
    "l2_normalize_vjp",
    "linear_attention",
    "linear_attention_step",
    "linear_attention_step_vjp",
    "linear_attention_vjp",
    "onnx_linear_attention",
    "onnx_linear_attention_vjp",
    "relu",
    "relu_vjp",
]
