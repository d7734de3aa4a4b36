"""linattn-keras: linear attention as a Keras layer and as operators, on every backend of Keras."""

from linattn_keras import config, ops
from linattn_keras.layers.linear_attention import LinearAttention

__version__ = "0.1.0"

__all__ = ["LinearAttention", "config", "ops"]
