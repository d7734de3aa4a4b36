"""Scenarios in which low precision or a narrow range shows in an output."""

from collections.abc import Iterator

import numpy as np

from linattn_spec.fixtures import Arrays
from linattn_spec.generate import kernelized_attention
from linattn_spec.generate.draw import Draw
from linattn_spec.generate.scenario import HALF, Scenario
from linattn_spec.generate.usual import inputs, kebab, scenario


def reading_cancels(id: str) -> Arrays:
    """Queries that read differences between rows of a state 30 times as large."""
    draw, arrays = Draw(id), inputs(id, "linear")
    row = draw.uniform(20.0, 32.0, (2, 3, 1, 5))
    arrays["initial_state"] = row + draw.uniform(-1.0, 1.0, (2, 3, 4, 5))
    sign = np.array([1.0, -1.0, 1.0, -1.0])
    arrays["query"] = sign * (1.0 + draw.uniform(0.0, 0.02, (2, 11, 1, 4)))
    return arrays


def tokens_cancel(id: str) -> Arrays:
    """Every second token takes back what the one before wrote, and only it reads."""
    draw, arrays = Draw(id), inputs(id, "linear", state=False)
    sign = np.where(np.arange(11) % 2, -1.0, 1.0)[:, None, None]
    arrays["key"] = 1.0 + draw.uniform(-0.02, 0.02, (2, 11, 1, 4))
    arrays["value"] = sign * 16.0 + draw.uniform(-0.5, 0.5, (2, 11, 3, 5))
    arrays["query"] = (sign < 0) * draw.uniform(0.5, 1.5, (2, 11, 1, 4))
    return arrays


def cancelling() -> Iterator[Scenario]:
    for name, build, summary in (
        ("reading", reading_cancels, "Outputs are small differences of large products."),
        ("tokens", tokens_cancel, "Outputs are small differences of what large tokens wrote."),
    ):
        id = f"linear-attention-linear-cancelling-{name}"
        yield scenario(
            id, summary, ("low-precision-product",), "linear", build(id),
            dtypes=HALF, arguments={"scale": 0.3},
        )  # fmt: skip


def ranges() -> Iterator[Scenario]:
    for rule, name, exponent in (("gated_delta", "large", 20), ("linear", "small", -30)):
        id = f"linear-attention-{kebab(rule)}-{name}"
        arrays = inputs(id, rule)
        for argument in ("value", "initial_state"):
            arrays[argument] = arrays[argument] * 2.0**exponent
        yield scenario(
            id,
            f"Values of about 2^{exponent}, which float16 does not hold and bfloat16 does.",
            ("half-range",),
            rule,
            arrays,
            dtypes=("bfloat16",),
        )


def subnormal() -> Iterator[Scenario]:
    for rule, name in (("linear", "keys"), ("gated", "queries")):
        id = f"linear-attention-{kebab(rule)}-subnormal-{name}"
        arrays, draw = inputs(id, rule), Draw(f"{id}/subnormal")
        often = np.arange(11)[:, None, None] % 2 == 0
        small = draw.uniform(-1.0, 1.0, (2, 11, 1, 4)) * 2.0**-14
        if name == "keys":
            arrays["key"] = np.where(often, small, arrays["key"])
            arrays["value"] = np.where(often, 1024.0, 1.0) * arrays["value"]
        else:
            arrays["query"] = np.where(often, small, 2.0**-10 * arrays["query"])
            arrays["initial_state"] = arrays["initial_state"] * 1024.0
        yield scenario(
            id,
            f"Half of the {name} are subnormal in float16 and meet large factors.",
            ("half-range",),
            rule,
            arrays,
            dtypes=("float16",),
        )


def epsilon() -> Iterator[Scenario]:
    id = "kernelized-attention-far-negative"
    draw, arrays = Draw(id), kernelized_attention.inputs(id)
    for name in ("query", "key"):
        arrays[name] = draw.uniform(-9.0, -6.0, arrays[name].shape)
    yield Scenario(
        id=id,
        summary="Denominators about as large as epsilon.",
        flags=("epsilon-ignored", "elu-cancels"),
        clause=kernelized_attention.CAUSAL,
        operator="kernelized_attention",
        arguments={"causal": True, "chunk_size": 4},
        inputs=arrays,
        dtypes=("float32", "float16", "bfloat16"),
    )
    for name, size, summary in (
        ("tiny", 2e-3, "Vectors about as long as the root of epsilon, whose squares are tiny."),
        ("large", 300.0, "Vectors whose squares are beyond the range of float16."),
    ):
        id = f"l2-normalize-{name}"
        yield Scenario(
            id, summary, ("half-range",), "equation (12)", "l2_normalize", {},
            {"x": Draw(id).uniform(-size, size, (2, 5, 3, 4))}, dtypes=("float16",),
        )  # fmt: skip


def scenarios() -> Iterator[Scenario]:
    for group in (cancelling, ranges, subnormal, epsilon):
        yield from group()
