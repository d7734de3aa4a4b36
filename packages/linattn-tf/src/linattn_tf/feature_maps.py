"""Feature maps of kernel attention, and the normalisation of keys, on TensorFlow tensors."""

import tensorflow as tf

import linattn_core
from linattn_core.checks import check_epsilon, check_feature_map_input
from linattn_tf._describe import as_tensors, describe
from linattn_tf._documentation import documented_as
from linattn_tf._tokens import Tensor, number, wide_dtype


@documented_as(linattn_core.elu_plus_one)
def elu_plus_one(x: Tensor) -> Tensor:
    (x,) = as_tensors(x=x)
    check_feature_map_input(describe, x)
    wide = tf.cast(x, wide_dtype(x))
    positive = wide > 0
    negative = tf.exp(tf.where(positive, number(0, wide.dtype), wide))
    return tf.cast(tf.where(positive, wide + 1, negative), x.dtype)


@documented_as(linattn_core.relu)
def relu(x: Tensor, epsilon: float = 1e-6) -> Tensor:
    (x,) = as_tensors(x=x)
    check_feature_map_input(describe, x)
    check_epsilon(epsilon)
    wide = tf.cast(x, wide_dtype(x))
    rectified = tf.where(wide > 0, wide, number(0, wide.dtype))
    return tf.cast(rectified + number(epsilon, wide.dtype), x.dtype)


@documented_as(linattn_core.l2_normalize)
def l2_normalize(x: Tensor, epsilon: float = 1e-6) -> Tensor:
    (x,) = as_tensors(x=x)
    check_feature_map_input(describe, x, "[..., D]")
    check_epsilon(epsilon)
    wide = tf.cast(x, wide_dtype(x))
    squares = tf.reduce_sum(wide * wide, axis=-1, keepdims=True)
    return tf.cast(wide * tf.math.rsqrt(squares + number(epsilon, wide.dtype)), x.dtype)
