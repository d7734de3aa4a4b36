"""A scenario, and the case it gives in each dtype."""

import zlib
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

from linattn_spec.conformance import result_dtype, run_case
from linattn_spec.fixtures import Array, Arrays, Case
from linattn_spec.generate.draw import Shape, generator
from linattn_spec.generate.oracle import oracle
from linattn_spec.generated import Generated
from linattn_spec.safetensors_format import DTYPES as STORED
from linattn_spec.tolerances import ACCUMULATION, GRADIENT, UNIT_ROUNDOFF, VALUE, widened

DTYPES = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}
_STORED_AS = {dtype: name for name, dtype in STORED.items()}
FULL = ("float64", "float32")
HALF = ("float16", "bfloat16")
ALL = FULL + HALF


@dataclass(frozen=True)
class Recipe:
    """(m + offset) * 2**exponent, see generated.py; the seed follows from the scenario's id."""

    shape: Shape
    offset: int
    exponent: int


@dataclass(frozen=True)
class Scenario:
    """A call before its inputs are rounded to a dtype.

    Attributes:
        id: kebab-case, never reused; the dtype is appended to it.
        summary, flags, clause, operator, arguments: as in Case.
        inputs: arrays; the float64 ones are rounded to the case's dtype.
        dtypes: those it is written in.
        accumulated: the inputs that keep the dtype computed in, float32 for float16 and bfloat16,
            because the case's dtype holds too few of their values or of their gradients'.
        input_dtypes: the inputs that have a dtype of their own whatever the case's is.
        conditioning: the measured 2-norm condition number of a chunk's I + L, equation (C3), if
            it is what limits the accuracy; else None.
        parts, tokens: as in Case.
        generated: inputs by name, and "output" for its cotangent, that are defined by integers; the
            dtype is the case's.
    """

    id: str
    summary: str
    flags: tuple[str, ...]
    clause: str
    operator: str
    arguments: dict[str, Any]
    inputs: Arrays
    dtypes: tuple[str, ...] = FULL
    accumulated: tuple[str, ...] = ()
    input_dtypes: dict[str, str] = field(default_factory=dict)
    conditioning: float | None = None
    parts: tuple[int, ...] | None = None
    tokens: tuple[int, ...] | None = None
    generated: dict[str, Recipe] = field(default_factory=dict)

    def cases(self) -> list[Case]:
        return [self._case(dtype) for dtype in self.dtypes]

    def _case(self, dtype: str) -> Case:
        dtypes = {
            name: self._dtype(name, dtype)
            for name, x in self.inputs.items()
            if x.dtype == np.float64
        }
        generated = self._generated(dtype)
        case = Case(
            id=f"{self.id}-{dtype}",
            summary=self.summary,
            flags=self.flags,
            clause=self.clause,
            operator=self.operator,
            dtype=dtype,
            arguments=self.arguments,
            inputs=self.inputs
            | {name: self.inputs[name].astype(DTYPES[own]) for name, own in dtypes.items()}
            | {
                name.removeprefix("input."): recipe.array()
                for name, recipe in generated.items()
                if name.startswith("input.")
            },
            tokens=self.tokens,
            generated=generated,
        )
        outputs = run_case(case, oracle)  # of the whole, also in parts
        cotangents = {
            name: generated[f"cotangent.{name}"].array().astype(np.float64)
            if f"cotangent.{name}" in generated
            else random_cotangent(f"{self.id}/{name}", x.shape)
            for name, x in outputs.items()
        }
        results = run_case(replace(case, cotangents=cotangents), oracle)
        gradients = {
            name.removeprefix("gradient."): x for name, x in results.items() if name not in outputs
        }
        tolerances = {name: VALUE[result_dtype(case, name)] for name in outputs}
        tolerances |= {
            f"gradient.{name}": GRADIENT[case.inputs[name].dtype.name] for name in gradients
        }
        tolerances, reason = self._argued(tolerances, dtype)
        return replace(
            case,
            outputs=outputs,
            cotangents=cotangents,
            gradients=gradients,
            tolerances=tolerances,
            tolerance_reason=reason,
            parts=self.parts,
        )

    def _generated(self, dtype: str) -> dict[str, Generated]:
        """By the names of the file; cotangents are stored as float16, which is the smallest."""
        return {
            ("cotangent.output" if name == "output" else f"input.{name}"): Generated(
                dtype="F16" if name == "output" else _STORED_AS[DTYPES[dtype]],
                seed=zlib.crc32(f"{self.id}/{name}".encode()),
                **asdict(recipe),
            )
            for name, recipe in self.generated.items()
        }

    def _argued(
        self, tolerances: dict[str, float], dtype: str
    ) -> tuple[dict[str, float], str | None]:
        """The table's tolerances and None, or wider ones and why."""
        if self.conditioning is None:
            return tolerances, None
        wider = {
            # A gradient is behind the system and its transpose.
            name: widened(x, dtype, self.conditioning * (2 if name.startswith("gradient.") else 1))
            for name, x in tolerances.items()
        }
        if wider == tolerances:
            return tolerances, None
        return wider, (
            f"The triangular system of a chunk has condition number {self.conditioning:.0f}: times "
            f"the unit roundoff of {dtype}, {UNIT_ROUNDOFF[dtype]:.1e}, once for values and twice "
            f"for gradients. In float64 the same inputs keep {VALUE['float64']:.0e}."
        )

    def _dtype(self, name: str, dtype: str) -> str:
        if name in self.accumulated:
            return ACCUMULATION[dtype]
        return self.input_dtypes.get(name, dtype)


def random_cotangent(seed: str, shape: Shape) -> Array:
    """Multiples of 1/8 in [-2, 2], exact in every dtype."""
    return generator(seed).randint(-16, 17, size=shape, dtype=np.int64) / 8
