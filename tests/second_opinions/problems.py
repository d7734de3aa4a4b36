"""What is compared: the golden fixtures' calls and larger random ones, all in float32."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from linattn_spec.arrays import Array, Arrays
from linattn_spec.conformance import Adapter, run_case
from linattn_spec.fixtures import Case, load_cases
from linattn_spec.generate.oracle import oracle
from linattn_spec.linear_attention import UPDATE_RULES
from linattn_spec.tolerances import GRADIENT, VALUE
from second_opinions.sequence import OPERATORS

# A longer sequence costs time and shows nothing that this many tokens do not.
_LONGEST = 300
# Decays between the bounds: what a trained model has, and what breaks an implementation.
_DECAYS = {
    "weak": (-0.02, 0.0),
    "medium": (-1.0, -0.1),
    "strong": (-8.0, -2.0),
    "mixed": (-20.0, 0.0),
    "twenty": (-20.0, -19.0),
}


@dataclass(frozen=True)
class _Size:
    """Sizes, T two chunks of 64 and mostly a remainder, and which inputs there are besides."""

    B: int
    T: int
    Hq: int
    Hk: int
    Hv: int
    Dk: int
    Dv: int
    state: bool = True
    padded_and_packed: bool = False
    decays: tuple[str, ...] = ("medium", "mixed")


_SIZES = {
    "equal-heads": _Size(B=2, T=130, Hq=3, Hk=3, Hv=3, Dk=8, Dv=12, decays=tuple(_DECAYS)),
    "shared-keys": _Size(B=1, T=130, Hq=2, Hk=2, Hv=6, Dk=16, Dv=10),
    "shared-values": _Size(B=1, T=130, Hq=4, Hk=2, Hv=2, Dk=12, Dv=9),
    "whole-chunks": _Size(B=1, T=128, Hq=2, Hk=2, Hv=2, Dk=11, Dv=7, state=False),
    "packed": _Size(B=3, T=50, Hq=2, Hk=2, Hv=2, Dk=6, Dv=9, padded_and_packed=True),
}


def problems() -> Iterator[Case]:
    """Every problem, without results."""
    yield from _golden()
    yield from _drawn()


def with_oracle(case: Case, definition: Adapter = oracle) -> Case:
    """The problem with its float64 results, and what a peer may differ from them by."""
    results = run_case(case, definition)
    named = {n: x for n, x in results.items() if not n.startswith("gradient.")}
    gradients = {n: results[f"gradient.{n}"] for n in case.inputs if f"gradient.{n}" in results}
    limits = dict.fromkeys(named, VALUE["float32"])
    limits |= {f"gradient.{n}": GRADIENT["float32"] for n in gradients}
    limits = {n: max(x, case.tolerances.get(n, 0.0)) for n, x in limits.items()}
    return replace(case, outputs=named, gradients=gradients, tolerances=limits)


def _golden() -> Iterator[Case]:
    """The value cases. One with a twin in float32 is, but for its rounding, the same problem."""
    cases = [c for c in load_cases() if c.error is None and c.operator in OPERATORS]
    ids = {case.id for case in cases}
    for case in cases:
        twin = case.id.removesuffix(case.dtype) + "float32"
        if (case.id != twin and twin in ids) or _tokens(case) > _LONGEST:
            continue
        # A wider tolerance is argued for float32 alone.
        tolerances = case.tolerances if case.dtype == "float32" else {}
        inputs = {n: _float32(x) for n, x in case.inputs.items()}
        yield replace(case, inputs=inputs, outputs={}, gradients={}, tolerances=tolerances)


def _tokens(case: Case) -> int:
    return 1 if case.operator == "linear_attention_step" else case.inputs["query"].shape[1]


def _float32(x: Array) -> Array:
    return x if x.dtype.kind in "bi" else x.astype(np.float32)


def _drawn() -> Iterator[Case]:
    for size in _SIZES:
        for rule in UPDATE_RULES:
            if "gated" not in rule:
                yield _draw(size, rule, None, per_key=False)
                continue
            for decay in _SIZES[size].decays:
                for per_key in (False, True):
                    yield _draw(size, rule, decay, per_key)


def _draw(size: str, rule: str, decay: str | None, per_key: bool) -> Case:
    """A call, with cotangents of both results."""
    words = ["drawn", size, rule, *([decay, "per-key" if per_key else "per-head"] if decay else [])]
    name = "-".join(words).replace("_", "-")
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    n = _SIZES[size]
    inputs: Arrays = {
        "query": rng.normal(size=(n.B, n.T, n.Hq, n.Dk)),
        "key": rng.normal(size=(n.B, n.T, n.Hk, n.Dk)),
        "value": rng.normal(size=(n.B, n.T, n.Hv, n.Dv)),
    }
    if n.state:
        inputs["initial_state"] = rng.normal(size=(n.B, n.Hv, n.Dk, n.Dv))
    if n.padded_and_packed:
        inputs["mask"] = rng.uniform(size=(n.B, n.T)) < 0.8
        inputs["segment_ids"] = np.cumsum(rng.uniform(size=(n.B, n.T)) < 0.1, axis=1)
    if decay is not None:
        shape = (n.B, n.T, n.Hv) + ((n.Dk,) if per_key else ())
        inputs["log_decay"] = rng.uniform(*_DECAYS[decay], size=shape)
    if "delta" in rule:
        # Up to 2, where beta * |k|^2 <= 2 still keeps the state from growing.
        inputs["beta"] = rng.uniform(0, 2, size=(n.B, n.T, n.Hv))
        inputs["key"] /= np.linalg.norm(inputs["key"], axis=-1, keepdims=True) * 1.0001
    return Case(
        id=name,
        summary="",
        flags=(),
        clause="",
        operator="linear_attention",
        dtype="float32",
        arguments={"update_rule": rule},
        inputs={name: _float32(x) for name, x in inputs.items()},
        cotangents={
            "output": rng.normal(size=(n.B, n.T, max(n.Hq, n.Hv), n.Dv)),
            "final_state": rng.normal(size=(n.B, n.Hv, n.Dk, n.Dv)),
        },
    )
