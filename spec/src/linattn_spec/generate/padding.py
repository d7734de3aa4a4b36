"""Scenarios of masks and segment ids in linear_attention."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from linattn_spec.fixtures import Array, Arrays
from linattn_spec.generate.scenario import ALL, FULL, Scenario
from linattn_spec.generate.usual import SINGLE, USUAL, inputs, kebab, scenario
from linattn_spec.linear_attention import UPDATE_RULES

# One row of tokens each, for two batch entries: "1" is a real token.
MASKS = {
    "right": ("11111111000", "11111100000"),
    "left": ("00011111111", "00000111111"),
    "interior": ("11100111011", "01101100111"),
    "row-all-false": ("00000000000", "11111111100"),
    "all-false": ("00000000000", "00000000000"),
}
SEGMENTS = {
    "inside-chunks": ("00000011111", "00111111122"),
    "at-chunks": ("00001111111", "11111111222"),
    "returning": ("00001100000", "22233322222"),
    "one": ("33333333333", "77777777777"),
    "every-token": ("01234567890", "55667788990"),
}


def rows(texts: tuple[str, ...], convert: Callable[[str], int]) -> Array:
    """Rows of digits as an array."""
    return np.array([[convert(digit) for digit in text] for text in texts])


def mask(name: str) -> Array:
    return rows(MASKS[name], lambda digit: digit == "1")


def segment_ids(name: str) -> Array:
    return rows(SEGMENTS[name], int).astype(np.int32)


def soiled(arrays: Arrays, keep: Array, garbage: float) -> Arrays:
    """`arrays` with `garbage` at the tokens that are not kept."""
    return {
        name: x if name.startswith("initial_state") else _soiled(x, keep, garbage)
        for name, x in arrays.items()
    }


def _soiled(x: Array, keep: Array, garbage: float) -> Array:
    return np.where(keep.reshape(keep.shape + (1,) * (x.ndim - 2)), x, garbage)


def _scenario(
    id: str,
    summary: str,
    flags: tuple[str, ...],
    rule: str,
    arrays: Arrays,
    dtypes: tuple[str, ...] = ("float64",),
) -> Scenario:
    clause = "equations (1)-(5)"
    return scenario(id, summary, flags, rule, arrays, clause=clause, dtypes=dtypes)


def masks() -> Iterator[Scenario]:
    padding = ("padding-decays",)
    for rule, name, garbage, per_key, dtypes in (
        ("linear", "right", np.nan, False, ("float64",)),
        ("gated", "right", np.nan, False, ("float64",)),
        ("delta", "right", np.nan, False, ("float64",)),
        ("gated_delta", "right", np.nan, False, ALL),
        ("gated_delta", "right", 1e3, False, ("float64",)),
        ("gated_delta", "left", np.inf, False, ("float64",)),
        ("gated", "left", 1e3, False, ("float64",)),
        ("gated_delta", "interior", np.nan, False, ("float64",)),
        ("gated", "interior", 1e3, True, ("float64",)),
        ("gated_delta", "row-all-false", np.nan, False, ("float64",)),
        ("gated_delta", "all-false", np.nan, False, ("float64",)),
    ):
        filling = {"nan": "nan", "inf": "inf"}.get(str(garbage), "garbage")
        id = f"linear-attention-{kebab(rule)}-mask-{name}-{filling}"
        arrays = inputs(id, rule, per_key=per_key)
        keep = mask(name)
        arrays = soiled(arrays, keep, garbage) | {"mask": keep}
        yield _scenario(
            id,
            f"Masked tokens ({name.replace('-', ' ')}) hold {filling}, and leave the state alone.",
            padding,
            rule,
            arrays,
            dtypes,
        )
    id = "linear-attention-gated-delta-mask-batch-1"
    arrays = inputs(id, "gated_delta", SINGLE)
    keep = mask("right")[:1]
    yield _scenario(
        id,
        "The mask counts in a batch of one, too.",
        ("mask-skipped-batch-one", *padding),
        "gated_delta",
        soiled(arrays, keep, 1e3) | {"mask": keep},
        FULL,
    )


def segments() -> Iterator[Scenario]:
    leak = ("segment-leak",)
    for rule in UPDATE_RULES:
        id = f"linear-attention-{kebab(rule)}-segments-inside-chunks"
        ids = segment_ids("inside-chunks")
        yield _scenario(
            id,
            "Packed documents meet inside a chunk; the given state belongs to the first.",
            leak,
            rule,
            inputs(id, rule) | {"segment_ids": ids},
            ALL if rule == "gated_delta" else ("float64",),
        )
    for name, summary in (
        ("at-chunks", "Packed documents meet at chunk boundaries."),
        ("returning", "An id that returns is a new segment."),
        ("one", "One segment whose id is not 0."),
        ("every-token", "Nearly every token is a segment."),
    ):
        id = f"linear-attention-gated-delta-segments-{name}"
        arrays = inputs(id, "gated_delta") | {"segment_ids": segment_ids(name)}
        yield _scenario(id, summary, leak, "gated_delta", arrays)
    id = "linear-attention-linear-segments-loud"
    arrays = inputs(id, "linear")
    ids = segment_ids("inside-chunks")
    first = (ids == ids[:, :1])[..., None, None]
    arrays["value"] = np.where(first, 1e3 * arrays["value"], arrays["value"])
    yield _scenario(
        id,
        "The first document is a thousand times louder and still not heard in the next.",
        leak,
        "linear",
        arrays | {"segment_ids": ids},
    )
    id = "linear-attention-gated-segments-per-key"
    arrays = inputs(id, "gated", pattern="zeros-mixed-in", per_key=True)
    arrays["segment_ids"] = segment_ids("inside-chunks")
    yield _scenario(id, "Segments with a gate per key.", leak, "gated", arrays)


def segments_and_masks() -> Iterator[Scenario]:
    for rule, name, summary, texts in (
        (
            "gated_delta",
            "masked-boundary",
            "The state is zero again also where the first token of a segment is masked.",
            ("11111100111", "11001111101"),
        ),
        (
            "linear",
            "masked-segment",
            "A segment that is masked throughout still ends the one before.",
            ("11111111000", "00111111100"),
        ),
    ):
        id = f"linear-attention-{kebab(rule)}-segments-{name}"
        keep = rows(texts, lambda digit: digit == "1")
        arrays = soiled(inputs(id, rule), keep, np.nan)
        arrays |= {"mask": keep, "segment_ids": segment_ids("inside-chunks")}
        yield _scenario(id, summary, ("segment-leak", "padding-decays"), rule, arrays, FULL)


def lengths() -> Iterator[Scenario]:
    id = "linear-attention-gated-delta-mask-length-1"
    arrays = inputs(id, "gated_delta", replace(USUAL, T=1))
    yield _scenario(
        id,
        "One token, masked in one of two batch entries.",
        ("short-sequence", "padding-decays"),
        "gated_delta",
        arrays | {"mask": np.array([[True], [False]])},
    )


def scenarios() -> Iterator[Scenario]:
    for group in (masks, segments, segments_and_masks, lengths):
        yield from group()
