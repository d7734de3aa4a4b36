"""Faults in kernel attention, the feature maps and l2_normalize."""

import numpy as np

from linattn_spec import feature_maps
from linattn_spec.arrays import Array, wide
from linattn_spec.feature_maps import Map
from linattn_spec.mutants.dissected import Dissected, Inputs
from linattn_spec.mutants.rows import Rows
from linattn_spec.mutants.table import mutant


class Kernelized(Dissected):
    operators: tuple[str, ...] = ("kernelized_attention",)


@mutant
class MaskBeforeFeatureMap(Kernelized):
    """The key is masked before the map only, so that padding is a mapped 0."""

    def mapped_key(self, phi: Map, key: Array, mask: Array | None) -> Array:
        return phi(key if mask is None else np.where(mask[..., None, None], key, 0))

    def masked(self, name: str, x: Array, keep: Array) -> Array:
        return x if name == "key" else super().masked(name, x, keep)

    def counted(self, keep: Array) -> Array:
        return np.ones_like(keep)


@mutant
class MaskedKeysInDenominator(Kernelized):
    """Padding is left out of the numerator alone."""

    def masked(self, name: str, x: Array, keep: Array) -> Array:
        return np.nan_to_num(x) if name == "key" else super().masked(name, x, keep)

    def counted(self, keep: Array) -> Array:
        return np.ones_like(keep)


@mutant
class NormalizerStateNotCarried(Kernelized):
    """The denominator starts from zeros."""

    def with_column(self, key_value_state: Array, key_state: Array | None = None) -> Array:
        key_state = None if key_state is None else np.zeros_like(key_state)
        return super().with_column(key_value_state, key_state)


@mutant
class DenominatorWithoutEpsilon(Kernelized):
    """Epsilon is not added to the denominator."""

    def denominator(self, reading: Array, epsilon: float) -> Array:
        return super().denominator(reading, 0.0)


@mutant
class NormalizerIsConstant(Kernelized):
    """No gradient flows through the denominator."""

    in_gradients = True

    def quotient(self, d_output: Array, output: Array) -> Array:
        return np.zeros_like(d_output[..., :1])


@mutant
class ReturningIdJoinsItsSegment(Kernelized):
    """Without causality, a segment id that returns joins the earlier segment."""

    def rows(self, given: Inputs, scale: float, chunk_size: int, delta: bool) -> Rows:
        rows = super().rows(given, scale, chunk_size, delta)
        rows.segment = np.asarray(given.get("segment_ids", rows.segment))
        return rows


@mutant
class EpsilonIsConstant(Kernelized):
    """Epsilon is always 1e-6."""

    operators = ("kernelized_attention", "relu")

    def feature_map(self, name: str, epsilon: float) -> tuple[Map, Map]:
        return super().feature_map(name, 1e-6)

    def denominator(self, reading: Array, epsilon: float) -> Array:
        return super().denominator(reading, 1e-6)


@mutant
class ReluWithoutEpsilon(Kernelized):
    """The map relu does not add epsilon."""

    operators = ("kernelized_attention", "relu")

    def feature_map(self, name: str, epsilon: float) -> tuple[Map, Map]:
        phi, slope = super().feature_map(name, epsilon)
        return (lambda x: phi(x) - epsilon) if name == "relu" else phi, slope


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
class MapIsNotDifferentiated(Dissected):
    """The gradient stops at the mapped values."""

    operators = ("elu_plus_one", "kernelized_attention", "relu")
    in_gradients = True

    def feature_map(self, name: str, epsilon: float) -> tuple[Map, Map]:
        phi, _ = super().feature_map(name, epsilon)
        return phi, np.ones_like


@mutant
class L2EpsilonOutsideTheRoot(Dissected):
    """Epsilon is added to the length, not to its square."""

    operators = ("l2_normalize",)

    def normalized(self, x: Array, epsilon: float) -> Array:
        length: Array = np.linalg.norm(x, axis=-1, keepdims=True)
        return x / (length + epsilon)


@mutant
class L2GradientWithoutEpsilon(Dissected):
    """The gradient of l2_normalize leaves epsilon out, NaN at zero."""

    operators = ("l2_normalize",)
    in_gradients = True

    def l2_gradient(self, x: Array, d: Array, epsilon: float) -> Array:
        return feature_maps.l2_normalize_vjp(x, d, 0.0)
