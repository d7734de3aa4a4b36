"""linattn_keras.portable: linear attention in keras.ops alone, on the tensors of any backend."""

from linattn_keras.portable.feature_maps import elu_plus_one, l2_normalize, relu
from linattn_keras.portable.kernelized_attention import kernelized_attention
from linattn_keras.portable.linear_attention import linear_attention, linear_attention_step
from linattn_keras.portable.onnx_linear_attention import onnx_linear_attention

__all__ = [
    "elu_plus_one",
    "kernelized_attention",
    "l2_normalize",
    "linear_attention",
    "linear_attention_step",
    "onnx_linear_attention",
    "relu",
]
