"""linattn-jax: linear attention on JAX arrays."""

from linattn_jax.feature_maps import elu_plus_one, l2_normalize, relu
from linattn_jax.kernelized_attention import kernelized_attention
from linattn_jax.linear_attention import linear_attention, linear_attention_step
from linattn_jax.onnx_linear_attention import onnx_linear_attention

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
