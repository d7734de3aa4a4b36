"""Faults in the feature maps and in l2_normalize."""

import numpy as np

from linattn_spec import feature_maps
from linattn_spec.arrays import Array, wide
from linattn_spec.feature_maps import Map
from linattn_spec.mutants.dissected import Dissected
from linattn_spec.mutants.table import mutant


@mutant
class EluPlusOneCancels(Dissected):
    """elu(x) + 1 is an addition in the dtype of x."""

    operators = ("elu_plus_one", "kernelized_attention")

    def feature_map(self, name: str, epsilon: float) -> tuple[Map, Map]:
        phi, slope = super().feature_map(name, epsilon)
        if name != "elu_plus_one":
            return phi, slope

        def elu_plus_one(x: Array) -> Array:
            elu = np.where(x > 0, x, np.expm1(x)).astype(x.dtype)
            return wide(elu + np.ones_like(elu))

        return elu_plus_one, slope


@mutant
class EluGradientHalvedAtZero(Dissected):
    """The derivative of elu(x) + 1 at 0 is that of exp(min(x, 0)), shared between the two."""

    operators = ("elu_plus_one",)
    in_gradients = True

    def feature_map(self, name: str, epsilon: float) -> tuple[Map, Map]:
        phi, slope = super().feature_map(name, epsilon)
        return phi, lambda x: np.where(x == 0, 0.5, slope(x))


@mutant
class EluGradientOverflows(Dissected):
    """The branch of elu that is not taken is differentiated too: 0 times infinity in float32."""

    operators = ("elu_plus_one",)
    in_gradients = True

    def feature_map(self, name: str, epsilon: float) -> tuple[Map, Map]:
        phi, _ = super().feature_map(name, epsilon)

        def slope(x: Array) -> Array:
            positive = x > 0
            return positive + ~positive * np.exp(x.astype(np.float32)).astype(np.float64)

        return phi, slope


@mutant
class L2EpsilonOutsideTheRoot(Dissected):
    """Epsilon is added to the length, not to its square."""

    operators = ("l2_normalize",)

    def unit(self, x: Array, epsilon: float) -> Array:
        length: Array = np.linalg.norm(wide(x), axis=-1, keepdims=True)
        return wide(x) / (length + epsilon)


@mutant
class L2GradientWithoutEpsilon(Dissected):
    """The gradient of l2_normalize leaves epsilon out, NaN at zero."""

    operators = ("l2_normalize",)
    in_gradients = True

    def l2_gradient(self, x: Array, d: Array, epsilon: float) -> Array:
        return feature_maps.l2_normalize_vjp(x, d, 0.0)


@mutant
class L2LengthIsConstant(Dissected):
    """No gradient flows through the length of the vector."""

    operators = ("l2_normalize",)
    in_gradients = True

    def l2_gradient(self, x: Array, d: Array, epsilon: float) -> Array:
        length: Array = np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + epsilon)
        return d / length


@mutant
class L2OfAllHeads(Dissected):
    """The length is that of all vectors together."""

    operators = ("l2_normalize",)

    def unit(self, x: Array, epsilon: float) -> Array:
        length: Array = np.sqrt(np.sum(wide(x) ** 2) + epsilon)
        return wide(x) / length
