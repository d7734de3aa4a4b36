"""Scenarios of onnx_linear_attention beyond the examples of the operator's text."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from linattn_spec.fixtures import Array, Arrays
from linattn_spec.generate import usual
from linattn_spec.generate.scenario import HALF, Scenario
from linattn_spec.generate.usual import GROUPED_QUERIES, Sizes, kebab

PACKED = Sizes(B=2, T=11, Hq=6, Hk=3, Hv=3, Dk=4, Dv=5, chunk=4)
ALLOWED = ("float32", *HALF)


def inputs(id: str, rule: str, sizes: Sizes = PACKED, *, past: bool = True, **more: Any) -> Arrays:
    """The usual inputs in the operator's packing and under its names."""
    arrays = usual.inputs(id, rule, sizes, state=past, **more)
    renamed = {"log_decay": "decay", "initial_state": "past_state"}
    return {renamed.get(name, name): _packed(name, x) for name, x in arrays.items()}


def _packed(name: str, x: Array) -> Array:
    """`[B, T, H, D]` as `[B, T, H * D]`; a state keeps its axes."""
    if name == "initial_state" or x.ndim == 3:
        return x
    return x.reshape(*x.shape[:2], x.shape[2] * x.shape[3])


def scenario(
    id: str,
    summary: str,
    flags: tuple[str, ...],
    rule: str,
    arrays: Arrays,
    sizes: Sizes = PACKED,
    *,
    scale: float = 0.0,
    **more: Any,
) -> Scenario:
    return Scenario(
        id=f"onnx-linear-attention-{id}",
        summary=summary,
        flags=flags,
        clause="equations (15)-(16)",
        operator="onnx_linear_attention",
        arguments={
            "update_rule": rule,
            "q_num_heads": sizes.Hq,
            "kv_num_heads": sizes.Hv,
            "scale": scale,
            "chunk_size": sizes.chunk,
        },
        inputs=arrays,
        **more,
    )


def scenarios() -> Iterator[Scenario]:
    for rule, dtypes in (("linear", ("float32",)), ("gated_delta", ALLOWED)):
        yield scenario(
            f"{kebab(rule)}-past",
            f"Rule {rule} from a past state, two query heads to a state.",
            ("state-one-token", "output-heads", "tile-for-repeat"),
            rule,
            inputs(f"{rule}-past", rule),
            dtypes=dtypes,
        )
    yield scenario(
        "gated-delta-no-past",
        "Without a past state the present one has the dtype of query.",
        ("output-heads", "tile-for-repeat"),
        "gated_delta",
        inputs("no-past", "gated_delta", past=False),
        dtypes=ALLOWED,
    )
    yield scenario(
        "gated-delta-float32-past",
        "A float32 past state keeps the present one in float32.",
        ("state-precision", "mixed-dtypes"),
        "gated_delta",
        inputs("float32-past", "gated_delta"),
        dtypes=HALF,
        input_dtypes={"past_state": "float32"},
    )
    yield scenario(
        "gated-per-key",
        "One gate per key, packed.",
        ("difference-of-cumulative-sums",),
        "gated",
        inputs("per-key", "gated", pattern="resets", per_key=True),
        dtypes=("float32",),
    )
    arrays = inputs("beta-shared", "delta", beta=(0.0, 2.0))
    yield scenario(
        "delta-beta-shared",
        "One beta [B, T, 1] for all heads, and a scale.",
        ("beta-shared", "beta-clamped", "scale-replaced"),
        "delta",
        arrays | {"beta": arrays["beta"][:, :, :1]},
        scale=0.75,
        dtypes=("float32",),
    )
    yield scenario(
        "gated-delta-grouped-queries-4",
        "Four query heads share each state.",
        ("output-heads", "tile-for-repeat"),
        "gated_delta",
        inputs("grouped", "gated_delta", replace(GROUPED_QUERIES, Hk=2)),
        GROUPED_QUERIES,
        dtypes=("float32",),
    )
    by_8 = replace(PACKED, Hq=16, Hk=2, Hv=2)
    yield scenario(
        "gated-delta-grouped-queries-8",
        "Eight query heads share each state.",
        ("output-heads", "tile-for-repeat"),
        "gated_delta",
        inputs("grouped-8", "gated_delta", replace(by_8, B=3)),
        by_8,
        dtypes=("float32",),
    )
    yield scenario(
        "gated-delta-batch-0",
        "An empty batch.",
        ("short-sequence",),
        "gated_delta",
        inputs("batch-0", "gated_delta", replace(PACKED, B=0)),
        dtypes=("float32",),
    )
    yield scenario(
        "gated-delta-length-0",
        "No token hands the past state on.",
        ("short-sequence",),
        "gated_delta",
        inputs("length-0", "gated_delta", replace(PACKED, T=0)),
        dtypes=("float32",),
    )
