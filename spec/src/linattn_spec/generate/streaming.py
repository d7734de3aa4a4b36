"""Scenarios of sequences that arrive in several calls, each with the state of the last."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from linattn_spec.generate import kernelized_attention, long, onnx_linear_attention, padding
from linattn_spec.generate.scenario import HALF, Recipe, Scenario
from linattn_spec.generate.usual import MEDIUM, USUAL, inputs, kebab, scenario
from linattn_spec.linear_attention import UPDATE_RULES

TWELVE = replace(USUAL, T=12)
ONE_BY_ONE = (1,) * 12
KEEP = padding.rows(("110111101111", "111100001110"), lambda digit: digit == "1")


def _name(parts: tuple[int, ...]) -> str:
    return "one-by-one" if parts == ONE_BY_ONE else "-".join(map(str, parts))


def _sentence(parts: tuple[int, ...]) -> str:
    if parts == ONE_BY_ONE:
        return "12 calls of one token, each from the state of the last"
    return f"Calls of {', '.join(map(str, parts))} tokens, each from the state of the last"


def linear_attention() -> Iterator[Scenario]:
    for rule, parts, per_key, state, dtypes in (
        *((rule, (5, 7), False, True, ("float32",)) for rule in UPDATE_RULES),
        ("gated_delta", (1, 11), False, True, ("float64",)),
        ("gated_delta", (6, 6), False, False, ("float64",)),
        ("gated_delta", (5, 0, 7), False, True, ("float64",)),
        ("gated_delta", ONE_BY_ONE, True, True, ("float64",)),
        ("gated", (1, 11), True, False, ("float32",)),
        ("delta", ONE_BY_ONE, False, False, ("float64",)),
        ("gated_delta", (4, 8), False, True, HALF),
    ):
        id = f"linear-attention-{kebab(rule)}-parts-{_name(parts)}"
        yield scenario(
            id,
            f"{_sentence(parts)}.",
            ("state-one-token", "state-gradient-dropped"),
            rule,
            inputs(id, rule, TWELVE, pattern="zeros-mixed-in", per_key=per_key, state=state),
            dtypes=dtypes,
            parts=parts,
        )
    id = "linear-attention-gated-delta-parts-masked"
    arrays = inputs(id, "gated_delta", TWELVE)
    yield scenario(
        id,
        "Padding on both sides of where a call ends.",
        ("state-one-token", "padding-decays"),
        "gated_delta",
        padding.soiled(arrays, KEEP, np.nan) | {"mask": KEEP},
        dtypes=("float32",),
        parts=(5, 7),
    )


def many_calls() -> Iterator[Scenario]:
    """A state that loses its low bits on every call, or between tokens, is seen here."""
    sizes = replace(MEDIUM, T=1024)
    id = "linear-attention-gated-parts-1024-tokens"
    arrays = inputs(id, "gated", sizes)
    arrays["log_decay"] = np.full_like(arrays["log_decay"], -1e-3)
    for dtype in HALF:
        yield scenario(
            id,
            "1,024 tokens in 32 calls, decays of -1e-3: the state keeps the precision computed in.",
            ("state-precision",),
            "gated",
            arrays,
            sizes=sizes,
            dtypes=(dtype,),
            accumulated=("log_decay", "initial_state"),
            parts=(32,) * 32,
            tokens=(0, 31, 32, 511, 512, 1022, 1023),
            generated={"output": Recipe((1, 1024, sizes.Hq, sizes.Dv), long.SIGNED, -6)},
            arguments={"execution_mode": "parallel"} if dtype == "float16" else {},
        )


def kernelized() -> Iterator[Scenario]:
    for name, parts, normalized, masked, dtypes in (
        ("", (5, 7), True, False, ("float32", "bfloat16")),
        ("plain-", (5, 7), False, False, ("float64",)),
        ("", ONE_BY_ONE, True, False, ("float64",)),
        ("", (5, 0, 7), True, False, ("float64",)),
        ("masked-", (1, 11), True, True, ("float64",)),
    ):
        id = f"kernelized-attention-parts-{name}{_name(parts)}"
        arrays = kernelized_attention.inputs(id, TWELVE, states=2 if normalized else 1)
        if masked:
            arrays = padding.soiled(arrays, KEEP, np.nan) | {"mask": KEEP}
        yield Scenario(
            id=id,
            summary=f"{_sentence(parts)}, {'' if normalized else 'not '}normalised.",
            flags=("normalizer-state-dropped",) if normalized else ("state-one-token",),
            clause=kernelized_attention.CAUSAL,
            operator="kernelized_attention",
            arguments={"causal": True, "use_normalizer": normalized, "chunk_size": 4},
            inputs=arrays,
            dtypes=dtypes,
            parts=parts,
        )


def onnx() -> Iterator[Scenario]:
    sizes = replace(onnx_linear_attention.PACKED, T=12)
    for parts, past, dtypes, own in (
        ((5, 7), True, ("float32",), {}),
        ((5, 0, 7), True, ("float32",), {}),
        (ONE_BY_ONE, False, ("float32",), {}),
        ((5, 7), True, HALF, {"past_state": "float32"}),
    ):
        id = f"onnx-linear-attention-gated-delta-parts-{_name(parts)}"
        if own:
            id += "-float32-past"
        yield onnx_linear_attention.scenario(
            id.removeprefix("onnx-linear-attention-"),
            f"{_sentence(parts)}.",
            ("state-one-token",),
            "gated_delta",
            onnx_linear_attention.inputs(id, "gated_delta", sizes, past=past),
            sizes,
            dtypes=dtypes,
            input_dtypes=own,
            parts=parts,
        )


def scenarios() -> Iterator[Scenario]:
    for group in (linear_attention, many_calls, kernelized, onnx):
        yield from group()
