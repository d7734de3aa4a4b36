"""The operators for any Keras backend: native where a package is installed, else in keras.ops."""

from linattn_keras.ops.feature_maps import elu_plus_one, l2_normalize, relu
from linattn_keras.ops.kernelized_attention import kernelized_attention
from linattn_keras.ops.linear_attention import linear_attention, linear_attention_step
from linattn_keras.ops.onnx_linear_attention import onnx_linear_attention

__all__ = [
    "elu_plus_one",
    "kernelized_attention",
    "l2_normalize",
    "linear_attention",
    "linear_attention_step",
    "onnx_linear_attention",
    "relu",
]
