"""Faults of low precision in what a token reads and writes."""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from linattn_spec.arrays import Array, Arrays, wide
from linattn_spec.mutants.chunk_parallel import ChunkParallel
from linattn_spec.mutants.dissected import Dissected, Inputs
from linattn_spec.mutants.recurrence import outer, read
from linattn_spec.mutants.rows import Rows
from linattn_spec.mutants.table import mutant


def rounded(x: Array, dtype: npt.DTypeLike) -> Array:
    return x.astype(dtype).astype(np.float64)


class InHalf(Dissected):
    dtypes = ("float16", "bfloat16")


class InHalfChunks(ChunkParallel):
    dtypes = InHalf.dtypes


@mutant
class OutputSummedInInputDtype(InHalf):
    """The products of query and state are summed in the dtype of the inputs."""

    operators = Dissected.every_rule

    def reading(self, rows: Rows, t: int, after: Array, decayed: Array) -> Array:
        total = np.zeros_like(rows.v[:, :, t])
        for i in range(after.shape[2]):
            total = rounded(total + rows.q[:, :, t, i, None] * after[:, :, i], rows.dtype)
        return total


@mutant
class QueryScaledInInputDtype(InHalf):
    """The query is scaled in the dtype of the inputs."""

    def reading(self, rows: Rows, t: int, after: Array, decayed: Array) -> Array:
        q = rounded(rows.scale * rows.q[:, :, t], rows.dtype) / (rows.scale or 1)
        return read(q, after)


@mutant
class ScoresInInputDtype(InHalfChunks):
    """A chunk's scores are rounded to the dtype of the inputs before they meet the values."""

    operators = Dissected.every_rule

    def attending(self, scores: Array, rows: Rows) -> Array:
        return rounded(super().attending(scores, rows), rows.dtype)


@mutant
class WriteInInputDtype(InHalf):
    """What the delta rules write is rounded to the dtype of the inputs."""

    shows_with = ("beta",)

    def correction(self, rows: Rows, t: int, decayed: Array, state: Array) -> Array:
        return rounded(super().correction(rows, t, decayed, state), rows.dtype)


@mutant
class InverseInInputDtype(InHalfChunks):
    """The triangular inverse is rounded to the dtype of the inputs."""

    shows_with = ("beta",)

    def inverse(self, L: Array, rows: Rows) -> Array:
        return rounded(super().inverse(L, rows), rows.dtype)


@mutant
class DecayInInputDtype(InHalf):
    """exp(log_decay) is rounded to the dtype of the inputs."""

    shows_with = Dissected.decays_in

    def decay(self, state: Array, g: Array, rows: Rows) -> Array:
        return rounded(np.exp(g), rows.dtype)[..., None] * state


@mutant
class DecaySumsInInputDtype(InHalfChunks):
    """Sums of log decays are rounded to the dtype of the inputs."""

    shows_with = Dissected.decays_in

    def exp(self, sums: Array, rows: Rows) -> Array:
        return super().exp(rounded(sums, rows.dtype), rows)


@mutant
class EpsilonInInputDtype(InHalf):
    """Epsilon is rounded to the dtype of the inputs."""

    operators = ("kernelized_attention", "relu", "l2_normalize")

    def __call__(
        self,
        operator: str,
        inputs: Inputs,
        arguments: dict[str, Any],
        cotangents: Arrays | None = None,
    ) -> Arrays:
        dtype = (inputs["x"] if "x" in inputs else inputs["value"]).dtype
        epsilon = float(rounded(np.array(arguments.get("epsilon", 1e-6)), dtype))
        return super().__call__(operator, inputs, {**arguments, "epsilon": epsilon}, cotangents)


@mutant
class SquaresInInputDtype(InHalf):
    """The squares of a vector are summed in its dtype."""

    operators = ("l2_normalize",)

    def unit(self, x: Array, epsilon: float) -> Array:
        total = np.zeros(x.shape[:-1])
        for i in range(x.shape[-1]):
            total = rounded(total + rounded(wide(x[..., i]) ** 2, x.dtype), x.dtype)
        return wide(x) / np.sqrt(total + epsilon)[..., None]


@mutant
class Bfloat16AsFloat16(Dissected):
    """bfloat16 is converted to float16, which lacks its range."""

    dtypes = ("bfloat16",)

    def rows(self, given: Inputs, scale: float, chunk_size: int, delta: bool) -> Rows:
        half = {n: rounded(given[n], np.float16) for n in ("query", "key")}
        half["value"] = given["value"].astype(np.float16)
        return super().rows({**given, **half}, scale, chunk_size, delta)


@mutant
class SubnormalsFlushed(Dissected):
    """Inputs that are subnormal in float16 count as 0."""

    dtypes = ("float16",)

    def masked(self, name: str, x: Array, keep: Array) -> Array:
        smallest = float(np.finfo(np.float16).smallest_normal)
        return super().masked(name, np.where(np.abs(x) < smallest, 0, x), keep)


@mutant
class OutputThroughBfloat16(Dissected):
    """The output passes through bfloat16."""

    operators = Dissected.every_rule
    dtypes = ("float32", "float16")

    def kept(self, x: Array, rows: Rows) -> Array:
        return rounded(super().kept(x, rows), ml_dtypes.bfloat16)


@mutant
class ProductsInTf32(Dissected):
    """What meets in a product keeps 10 bits of its mantissa."""

    dtypes = ("float64", "float32")

    def short(self, x: Array) -> Array:
        mantissa, exponent = np.frexp(x)
        return np.ldexp(np.round(mantissa * 2**11) / 2**11, exponent)

    def update(self, rows: Rows, t: int, decayed: Array, write: Array) -> Array:
        return decayed + outer(self.short(rows.k[:, :, t]), self.short(write))

    def reading(self, rows: Rows, t: int, after: Array, decayed: Array) -> Array:
        return read(self.short(rows.q[:, :, t]), self.short(after))
