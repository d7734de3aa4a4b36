"""Faults in kernel attention."""

import numpy as np

from linattn_spec.arrays import Array, Arrays
from linattn_spec.feature_maps import Map
from linattn_spec.mutants.dissected import Dissected, Inputs
from linattn_spec.mutants.rows import Rows
from linattn_spec.mutants.table import mutant


class Kernelized(Dissected):
    operators: tuple[str, ...] = ("kernelized_attention",)


@mutant
class MaskBeforeFeatureMap(Kernelized):
    """The key is masked before the map only, so that padding is a mapped 0."""

    shows_with = ("mask",)

    def mapped_key(self, phi: Map, key: Array, mask: Array | None) -> Array:
        return phi(key if mask is None else np.where(mask[..., None, None], key, 0))

    def masked(self, name: str, x: Array, keep: Array) -> Array:
        return x if name == "key" else super().masked(name, x, keep)

    def counted(self, keep: Array) -> Array:
        return np.ones_like(keep)


@mutant
class MaskedKeysInDenominator(Kernelized):
    """Padding is left out of the numerator alone."""

    shows_with = ("mask",)

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
class EpsilonAsLowerBound(Kernelized):
    """The denominator is at least epsilon instead of epsilon more."""

    def denominator(self, reading: Array, epsilon: float) -> Array:
        return np.maximum(super().denominator(reading, 0.0), epsilon)


@mutant
class NormalizerIsConstant(Kernelized):
    """No gradient flows through the denominator."""

    in_gradients = True

    def quotient(self, d_output: Array, output: Array) -> Array:
        return np.zeros_like(d_output[..., :1])


@mutant
class ReturningIdJoinsItsSegment(Kernelized):
    """Without causality, a segment id that returns joins the earlier segment."""

    shows_with = ("segment_ids",)

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
class MapIsNotDifferentiated(Dissected):
    """The gradient stops at the mapped values."""

    operators = ("elu_plus_one", "kernelized_attention", "relu")
    in_gradients = True

    def feature_map(self, name: str, epsilon: float) -> tuple[Map, Map]:
        phi, _ = super().feature_map(name, epsilon)
        return phi, np.ones_like


@mutant
class KernelScaled(Kernelized):
    """The query is scaled by Dk ** -0.5, as in linear_attention."""

    def rows(self, given: Inputs, scale: float, chunk_size: int, delta: bool) -> Rows:
        return super().rows(given, given["query"].shape[3] ** -0.5, chunk_size, delta)


@mutant
class CausalAllTheSame(Kernelized):
    """Without causality a token still reads no later one."""

    def same_segment(self, rows: Rows) -> Array:
        return np.tril(super().same_segment(rows))


@mutant
class KeySumGradientDropped(Kernelized):
    """The gradient of the returned sum of keys is ignored."""

    in_gradients = True

    def gradients(
        self,
        rows: Rows,
        given: Arrays,
        d_output: Array,
        d_state: Array | None,
        causal: bool = True,
    ) -> Arrays:
        if rows.normalized and d_state is not None:
            d_state[..., -1] = 0
        return super().gradients(rows, given, d_output, d_state, causal)
