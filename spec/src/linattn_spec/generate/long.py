"""Scenarios of long sequences, and of every length around chunks of 16, 32, 64 and 128.

Their tensors are defined by integers (generated.py) and their results are stored at a few tokens.
"""

from collections.abc import Iterator
from typing import Any

from linattn_spec.fixtures import Arrays
from linattn_spec.generate.draw import Draw
from linattn_spec.generate.scenario import Recipe, Scenario
from linattn_spec.generate.usual import kebab

B, Hq, Hk, Hv, Dk, Dv = 1, 4, 2, 2, 3, 5
RECURRENT_TOO = (2048, "gated_delta", "float32")
SIGNED, FRACTION, NEGATIVE = -128, 0, -255  # offsets: what the byte of an element counts from


def recipes(rule: str, T: int, *, per_key: bool, weak: bool) -> dict[str, Recipe]:
    """Queries and values in [-2, 2), keys in [-1/2, 1/2), beta in [0, 2), decays from 0 down."""
    given = {
        "query": Recipe((B, T, Hq, Dk), SIGNED, -6),
        "key": Recipe((B, T, Hk, Dk), SIGNED, -8),
        "value": Recipe((B, T, Hv, Dv), SIGNED, -6),
    }
    if "gated" in rule:
        shape = (B, T, Hv, Dk) if per_key else (B, T, Hv)
        given["log_decay"] = Recipe(shape, NEGATIVE, -12 if weak else -6)
    if "delta" in rule:
        given["beta"] = Recipe((B, T, Hv), FRACTION, -7)
    return given | {"output": Recipe((B, T, max(Hq, Hv), Dv), SIGNED, -6)}


def _scenario(
    id: str,
    summary: str,
    flags: tuple[str, ...],
    rule: str,
    tokens: tuple[int, ...],
    T: int,
    *,
    chunk: int,
    dtypes: tuple[str, ...] = ("float32",),
    per_key: bool = False,
    weak: bool = False,
    **arguments: Any,
) -> Scenario:
    """`rule` may be "kernelized" too: causal, normalised kernel attention."""
    draw = Draw(id)
    state: Arrays = {"initial_state": draw.uniform(-1.0, 1.0, (B, Hv, Dk, Dv))}
    own: dict[str, Any] = {"update_rule": rule}
    operator, clause = "linear_attention", "equations (1)-(4)"
    if rule == "kernelized":
        operator, own, clause = "kernelized_attention", {"causal": True}, "equations (7)-(8)"
        state = {
            "initial_state.0": state["initial_state"],
            "initial_state.1": draw.uniform(0.5, 2.0, (B, Hv, Dk)),
        }
    return Scenario(
        id=id,
        summary=summary,
        flags=flags,
        clause=clause,
        operator=operator,
        arguments=own | arguments | {"chunk_size": chunk},
        inputs=state,
        dtypes=dtypes,
        tokens=tokens,
        generated=recipes(rule, T, per_key=per_key, weak=weak),
    )


def chunk_edges() -> Iterator[Scenario]:
    for chunk in (16, 32, 64, 128):
        longest = 2 * chunk + 3
        lengths = (chunk - 1, chunk, chunk + 1, longest)
        calls = [("gated_delta", T) for T in lengths]
        calls += [("gated", longest), ("kernelized", longest)]
        edges = (0, chunk - 2, chunk - 1, chunk, chunk + 1, 2 * chunk - 1, 2 * chunk)
        for rule, T in calls:
            yield _scenario(
                f"{_operator(rule)}-edge-{chunk}-length-{T}",
                f"{T} tokens around the edges of chunks of {chunk}.",
                ("chunk-remainder", "state-one-token"),
                rule,
                tuple(sorted({t for t in (*edges, T - 1) if t < T})),
                T,
                chunk=chunk,
                per_key=rule == "gated",
                weak=chunk > 32,
                execution_mode="parallel",
            )


def long() -> Iterator[Scenario]:
    for T, rule, per_key, dtypes in (
        (2048, "linear", False, ("float32",)),
        (2048, "gated", True, ("float32",)),
        (2048, "delta", False, ("float32",)),
        (2048, "gated_delta", False, ("float32",)),
        (2048, "gated_delta", False, ("float64", "float16", "bfloat16")),
        (2048, "kernelized", False, ("float32", "bfloat16")),
        (65536, "gated_delta", False, ("float32",)),
        (65603, "gated", True, ("bfloat16",)),
    ):
        tokens = {0, 1, 63, 64, 127, 128, T // 2 - 1, T // 2, T - 65, T - 64, T - 2, T - 1}
        yield _scenario(
            f"{_operator(rule)}-length-{T}",
            f"{T} tokens, results at {len(tokens)} of them.",
            ("long-sequence", "state-precision"),
            rule,
            tuple(sorted(tokens)),
            T,
            chunk=64,
            dtypes=dtypes,
            per_key=per_key,
            weak=True,
            # Token by token takes eager frameworks minutes: one case is enough to try it.
            **({} if (T, rule, *dtypes) == RECURRENT_TOO else {"execution_mode": "parallel"}),
        )


def _operator(rule: str) -> str:
    return "kernelized-attention" if rule == "kernelized" else f"linear-attention-{kebab(rule)}"


def scenarios() -> Iterator[Scenario]:
    for group in (chunk_edges, long):
        yield from group()
