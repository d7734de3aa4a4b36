"""Scenarios of the keys and of beta in the delta rules of linear_attention."""

from collections.abc import Iterator

import numpy as np

from linattn_spec.generate.draw import Draw
from linattn_spec.generate.scenario import FULL, Scenario
from linattn_spec.generate.usual import LONG, USUAL, inputs, kebab, scenario


def keys() -> Iterator[Scenario]:
    """Delta rules whose triangular matrix is far from the identity."""
    for rule in ("delta", "gated_delta"):
        for name, summary, low, repeated, noise, beta in (
            ("non-negative", "Non-negative keys, as feature maps give.", 0.0, False, 0.0, (0, 2)),
            ("repeated", "The same key at every token, beta 1.", -1.0, True, 0.0, (1, 1)),
            ("repeated-beta-1.9", "The same key at every token.", -1.0, True, 0.0, (1.9, 1.9)),
            ("near-identical", "Keys that differ by 1e-3, beta 1.", -1.0, True, 1e-3, (1, 1)),
        ):
            if rule == "gated_delta" and name == "repeated":
                continue
            id = f"linear-attention-{kebab(rule)}-keys-{name.replace('.', '-')}"
            arrays = inputs(id, rule, LONG, pattern="hundredth", beta=beta)
            draw = Draw(f"{id}/key")
            shape = arrays["key"].shape
            key = draw.normalized(shape, low)
            if repeated:
                key = key[:, :1] + noise * draw.uniform(-1.0, 1.0, shape)
                key = 0.98 * key / np.sqrt(np.sum(key * key, axis=-1, keepdims=True))
            yield scenario(
                id, summary, ("inverse-explodes",), rule, arrays | {"key": key}, sizes=LONG,
                conditioning=830.0 if name == "repeated-beta-1.9" else None,
            )  # fmt: skip


def betas() -> Iterator[Scenario]:
    for rule in ("delta", "gated_delta"):
        for name, summary, beta in (
            ("up-to-2", "Beta from 0 to 2: it is not clamped at 1.", (0.0, 2.0)),
            ("2", "Beta 2 everywhere, the edge of the domain.", (2.0, 2.0)),
            ("0", "Beta 0 writes nothing.", (0.0, 0.0)),
        ):
            id = f"linear-attention-{kebab(rule)}-beta-{name}"
            yield scenario(
                id, summary, ("beta-clamped",), rule, inputs(id, rule, beta=beta),
                dtypes=FULL if name == "up-to-2" else ("float64",),
            )  # fmt: skip
    id = "linear-attention-delta-beta-shared"
    arrays = inputs(id, "delta", beta=(0.0, 2.0))
    yield scenario(
        id,
        "One beta [B, T, 1] for all heads.",
        ("beta-shared",),
        "delta",
        arrays | {"beta": arrays["beta"][:, :, :1]},
        dtypes=("float64",),
    )


def written_and_read() -> Iterator[Scenario]:
    id = "linear-attention-gated-delta-read-your-write"
    arrays = inputs(id, "gated_delta", pattern="hundredth", beta=(1.0, 1.0))
    # One axis is never written: all of the state's gradient is there, the rest is erased.
    axis = Draw(f"{id}/axis").integers(1, USUAL.Dk, arrays["key"].shape[:3])
    key = np.eye(USUAL.Dk)[axis]
    yield scenario(
        id,
        "Unit keys, beta 1, query = key: what is read is the value just written.",
        ("error-before-decay",),
        "gated_delta",
        arrays | {"key": key, "query": key},
        arguments={"scale": 1.0},
    )


def scenarios() -> Iterator[Scenario]:
    for group in (keys, betas, written_and_read):
        yield from group()
