"""Feature maps of kernel attention, and the normalisation of keys, in keras.ops."""

from keras import ops

import linattn_core
from linattn_core.checks import check_epsilon, check_feature_map_input
from linattn_keras.portable._describe import describe
from linattn_keras.portable._documentation import documented_as
from linattn_keras.portable._tokens import Tensor, number, wide_dtype


@documented_as(linattn_core.elu_plus_one)
def elu_plus_one(x: Tensor) -> Tensor:
    check_feature_map_input(describe, x)
    wide = ops.cast(x, wide_dtype(x))
    positive = wide > 0
    negative = ops.exp(ops.where(positive, 0.0, wide))
    return ops.cast(ops.where(positive, wide + 1, negative), x.dtype)


@documented_as(linattn_core.relu)
def relu(x: Tensor, epsilon: float = 1e-6) -> Tensor:
    check_feature_map_input(describe, x)
    check_epsilon(epsilon)
    dtype = wide_dtype(x)
    wide = ops.cast(x, dtype)
    return ops.cast(ops.where(wide > 0, wide, 0.0) + number(epsilon, dtype), x.dtype)


@documented_as(linattn_core.l2_normalize)
def l2_normalize(x: Tensor, epsilon: float = 1e-6) -> Tensor:
    check_feature_map_input(describe, x, "[..., D]")
    check_epsilon(epsilon)
    dtype = wide_dtype(x)
    wide = ops.cast(x, dtype)
    squares = ops.sum(wide * wide, axis=-1, keepdims=True)
    return ops.cast(wide * ops.rsqrt(squares + number(epsilon, dtype)), x.dtype)
