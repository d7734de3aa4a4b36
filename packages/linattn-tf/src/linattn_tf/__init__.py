"""linattn-tf: linear attention on TensorFlow tensors."""

from linattn_tf.feature_maps import elu_plus_one, l2_normalize, relu
from linattn_tf.kernelized_attention import kernelized_attention
from linattn_tf.linear_attention import linear_attention, linear_attention_step
from linattn_tf.onnx_linear_attention import onnx_linear_attention

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
