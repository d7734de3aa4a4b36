"""The calls that invariants.py tries: kinds of gates, sizes and a seed."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from linattn_spec.arrays import Array

KERNEL = "kernelized"
CHUNK = 4

# By argument name; an initial state may be a tuple.
Inputs = dict[str, Any]


@dataclass(frozen=True)
class Family:
    """One set of sizes, all different where the heads allow it, and how its tokens are divided."""

    B: int
    T: int
    Hq: int
    Hk: int
    Hv: int
    Dk: int
    Dv: int
    segments: tuple[int, ...]
    real: int

    @property
    def groups(self) -> int:
        """Neighbouring heads that share nothing with the others."""
        return min(self.Hq, self.Hk)


FAMILIES = (
    Family(B=2, T=7, Hq=6, Hk=3, Hv=3, Dk=4, Dv=5, segments=(3, 4), real=5),
    Family(B=3, T=9, Hq=2, Hk=2, Hv=4, Dk=6, Dv=5, segments=(4, 1, 4), real=6),
)


@dataclass(frozen=True)
class Problem:
    """One call. `inputs` follows from the other fields."""

    rule: str
    gates: str
    vector: bool
    dtype: str
    family: Family
    seed: int

    @property
    def operator(self) -> str:
        return "kernelized_attention" if self.rule == KERNEL else "linear_attention"

    @property
    def arguments(self) -> dict[str, Any]:
        if self.rule == KERNEL:
            return {"causal": True, "chunk_size": CHUNK}
        return {"update_rule": self.rule, "chunk_size": CHUNK}

    def inputs(self, seed: int = 0) -> Inputs:
        """Tokens and a state; another `seed` gives other values in the same shapes."""
        f, rng = self.family, np.random.default_rng((self.seed, seed))
        inputs = {
            "query": rng.normal(size=(f.B, f.T, f.Hq, f.Dk)),
            "key": rng.normal(size=(f.B, f.T, f.Hk, f.Dk)),
            "value": rng.normal(size=(f.B, f.T, f.Hv, f.Dv)),
        }
        if "gated" in self.rule:
            shape = (f.B, f.T, f.Hv) + ((f.Dk,) if self.vector else ())
            inputs["log_decay"] = self._log_decay(rng, shape)
        if "delta" in self.rule:
            inputs["beta"] = rng.uniform(0, 2, size=(f.B, f.T, f.Hv))
            length = np.linalg.norm(inputs["key"], axis=-1, keepdims=True)
            inputs["key"] /= length * 1.0001  # beta * |k|^2 stays <= 2 in float32 too
        inputs = {n: x.astype(self.dtype) for n, x in inputs.items()}
        state = rng.normal(size=(f.B, f.Hv, f.Dk, f.Dv)).astype(self.dtype)
        if self.rule == KERNEL:
            keys = rng.uniform(1, 2, size=(f.B, f.Hv, f.Dk)).astype(self.dtype)
            return inputs | {"initial_state": (state, keys)}
        return inputs | {"initial_state": state}

    def _log_decay(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        if self.gates == "weak":
            return -0.1 * rng.uniform(size=shape)
        return rng.choice([0.0, -0.01, -1.0, -20.0, -1e4, -np.inf], size=shape)
