"""linattn-core: linear attention on NumPy arrays, and what every linattn package shares."""

from linattn_core.feature_maps import elu_plus_one, l2_normalize, relu
from linattn_core.kernelized_attention import kernelized_attention
from linattn_core.linear_attention import linear_attention, linear_attention_step
from linattn_core.onnx_linear_attention import onnx_linear_attention

__version__ = "0.1.0"

__all__ = [
    "elu_plus_one",
    "kernelized_attention",
    "l2_normalize",
    "linear_attention",
    "linear_attention_step",
    "onnx_linear_attention",
    "relu",
]
