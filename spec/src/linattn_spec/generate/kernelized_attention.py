"""Scenarios of kernelized_attention."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from linattn_spec.fixtures import Arrays
from linattn_spec.generate import padding
from linattn_spec.generate.draw import Draw
from linattn_spec.generate.scenario import ALL, FULL, Scenario
from linattn_spec.generate.usual import GROUPED_VALUES, MEDIUM, TWO_QUERIES, USUAL, Sizes

CAUSAL = "equations (7)-(8)"
WHOLE = "equations (13)-(14)"


def inputs(id: str, sizes: Sizes = USUAL, *, states: int = 0, positive: bool = False) -> Arrays:
    """Random inputs with `states` parts of a state; positive ones for the map "identity"."""
    draw, n = Draw(id), sizes
    low = 0.1 if positive else -2.0
    arrays = {
        "query": draw.uniform(low, 2.0, (n.B, n.T, n.Hq, n.Dk)),
        "key": draw.uniform(low, 2.0, (n.B, n.T, n.Hk, n.Dk)),
        "value": draw.uniform(-2.0, 2.0, (n.B, n.T, n.Hv, n.Dv)),
    }
    parts = {
        "initial_state.0": draw.uniform(-1.0, 1.0, (n.B, n.Hv, n.Dk, n.Dv)),
        "initial_state.1": draw.uniform(0.5, 2.0, (n.B, n.Hv, n.Dk)),
    }
    return arrays | dict(list(parts.items())[:states])


def _scenario(
    id: str,
    summary: str,
    flags: tuple[str, ...],
    arrays: Arrays,
    *,
    sizes: Sizes = USUAL,
    dtypes: tuple[str, ...] = ("float64",),
    **arguments: Any,
) -> Scenario:
    return Scenario(
        id=f"kernelized-attention-{id}",
        summary=summary,
        flags=flags,
        clause=CAUSAL if arguments.get("causal") else WHOLE,
        operator="kernelized_attention",
        arguments=arguments | {"chunk_size": sizes.chunk},
        inputs=arrays,
        dtypes=dtypes,
    )


def _dtypes(feature_map: str, causal: bool, normalized: bool) -> tuple[str, ...]:
    if feature_map == "elu_plus_one" and normalized:
        return ALL if causal else FULL
    return FULL if normalized and causal else ("float64",)


def feature_maps() -> Iterator[Scenario]:
    for feature_map in ("elu_plus_one", "relu", "identity"):
        for causal in (True, False):
            for normalized in (True, False):
                parts = (
                    feature_map.replace("_", "-"),
                    "causal" if causal else "whole",
                    "normalized" if normalized else "plain",
                )
                id = "-".join(parts)
                arrays = inputs(
                    id,
                    TWO_QUERIES if feature_map == "elu_plus_one" else USUAL,
                    states=causal * (1 + normalized),
                    positive=feature_map == "identity" and normalized,
                )
                yield _scenario(
                    id,
                    f"Map {feature_map}, {parts[1]} sequence, {parts[2]}.",
                    ("normalizer-state-dropped" if causal and normalized else "chunk-remainder",),
                    arrays,
                    dtypes=_dtypes(feature_map, causal, normalized),
                    feature_map=feature_map,
                    causal=causal,
                    use_normalizer=normalized,
                )


def normalizers() -> Iterator[Scenario]:
    for causal in (True, False):
        id = f"ones-{'causal' if causal else 'whole'}"
        arrays = inputs(id)
        keep = padding.mask("interior")
        arrays["value"][..., 0] = 1.0  # not all of them: query and key would have no gradient
        yield _scenario(
            id,
            "A column of ones gives 1 at real tokens: masked keys are not in the denominator.",
            ("masked-keys-in-denominator",),
            padding.soiled(arrays, keep, np.nan) | {"mask": keep},
            dtypes=("float32",),
            causal=causal,
            epsilon=1e-9,
        )
    id = "relu-epsilon"
    yield _scenario(
        id,
        "Epsilon is added to the map and to the denominator.",
        ("epsilon-ignored",),
        inputs(id),
        feature_map="relu",
        causal=True,
        epsilon=0.125,
    )
    id = "no-state"
    yield _scenario(
        id,
        "Causal from a state of zeros that is not given.",
        ("chunk-remainder",),
        inputs(id),
        causal=True,
    )


def paddings() -> Iterator[Scenario]:
    for name, garbage, causal in (
        ("right", np.nan, True),
        ("left", 1e3, True),
        ("row-all-false", np.inf, True),
        ("right", 1e3, False),
        ("row-all-false", np.nan, False),
    ):
        id = f"mask-{name}-{'causal' if causal else 'whole'}"
        keep = padding.mask(name)
        yield _scenario(
            id,
            f"Masked tokens ({name.replace('-', ' ')}) hold {garbage} and count nowhere.",
            ("masked-keys-in-denominator", "padding-decays"),
            padding.soiled(inputs(id, states=2 * causal), keep, garbage) | {"mask": keep},
            causal=causal,
        )
    for name, causal, masked in (
        ("inside-chunks", True, False),
        ("inside-chunks", True, True),
        ("inside-chunks", False, False),
        ("returning", False, False),
        ("returning", False, True),
    ):
        id = f"segments-{name}-{'causal' if causal else 'whole'}{'-masked' if masked else ''}"
        arrays = inputs(id, states=2 * causal)
        if masked:
            keep = padding.mask("interior")
            arrays = padding.soiled(arrays, keep, np.nan) | {"mask": keep}
        yield _scenario(
            id,
            "Packed documents attend to themselves only.",
            ("segment-leak",),
            arrays | {"segment_ids": padding.segment_ids(name)},
            causal=causal,
        )


def sizes() -> Iterator[Scenario]:
    lengths = [(T, True) for T in (0, 1, 5)] + [(T, False) for T in (0, 1)]
    for T, causal in lengths:
        id = f"length-{T}-{'causal' if causal else 'whole'}"
        yield _scenario(
            id,
            f"{T} tokens in chunks of 4.",
            ("short-sequence" if T < 3 else "chunk-remainder",),
            inputs(id, replace(USUAL, T=T), states=2 * causal),
            causal=causal,
            epsilon=0.5,  # one token alone gives its value, whatever query and key, but for epsilon
        )
    for causal in (True, False):
        id = f"grouped-values-{'causal' if causal else 'whole'}"
        yield _scenario(
            id,
            "Three value heads share a query and a key head.",
            ("tile-for-repeat", "output-heads"),
            inputs(id, GROUPED_VALUES, states=2 * causal),
            sizes=GROUPED_VALUES,
            causal=causal,
        )
    id = "chunk-16"
    yield _scenario(
        id,
        "35 tokens in chunks of 16.",
        ("chunk-remainder", "normalizer-state-dropped"),
        inputs(id, MEDIUM, states=2),
        sizes=MEDIUM,
        dtypes=("float32", "bfloat16"),
        causal=True,
    )


def scenarios() -> Iterator[Scenario]:
    for group in (feature_maps, normalizers, paddings, sizes):
        yield from group()
