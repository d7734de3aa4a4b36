"""Scenarios of the decays in linear_attention."""

from collections.abc import Iterator

from linattn_spec.generate.scenario import ALL, FULL, Scenario
from linattn_spec.generate.usual import TWO_QUERIES, USUAL, inputs, kebab, scenario

_DECAYS = {
    "zero": (
        "Gates of 0 leave the rule without a gate.",
        ("gate-zero",),
    ),
    "hundredth": (
        "Weak gates carry the state over every chunk.",
        ("state-one-token", "transposed-state"),
    ),
    "one": (
        "Moderate gates.",
        ("chunk-remainder",),
    ),
    "twenty": (
        "Strong gates, whose gradient is tiny and must be right relative to its own size.",
        ("gate-gradient-cancels",),
    ),
    "ten-thousand": (
        "Gates that underflow forget the state; their gradient is exactly 0.",
        ("difference-of-cumulative-sums", "gate-gradient-cancels"),
    ),
    "minus-infinity": (
        "Gates of minus infinity forget the state; their gradient is exactly 0, not NaN.",
        ("difference-of-cumulative-sums", "zero-times-infinity"),
    ),
    "resets": (
        "Gates of minus infinity among weak ones reset the state inside chunks.",
        ("difference-of-cumulative-sums", "zero-times-infinity", "state-gradient-dropped"),
    ),
    "zeros-mixed-in": (
        "Exact zeros among the gates.",
        ("gate-zero",),
    ),
    "weak-and-strong": (
        "Half the gates near -1e-3, half near -1e7.",
        ("positive-difference", "difference-of-cumulative-sums"),
    ),
    "strong-first": (
        "A gate of -90 at the first token, weak ones after it.",
        ("zero-times-infinity",),
    ),
    "strong-last": (
        "A gate of -90 at the last token, weak ones before it.",
        ("zero-times-infinity",),
    ),
}
_PER_KEY = ("hundredth", "twenty", "resets", "zeros-mixed-in", "weak-and-strong", "strong-first")
_HALF = (("resets", False), ("resets", True), ("twenty", False))
# float16's gradients underflow below 6e-8.
_ACCUMULATED = {"twenty": ("log_decay", "beta", "initial_state")}


def scenarios() -> Iterator[Scenario]:
    for rule in ("gated", "gated_delta"):
        for pattern, (summary, flags) in _DECAYS.items():
            for per_key in (False, True):
                if per_key and pattern not in _PER_KEY:
                    continue
                half = rule == "gated_delta" and (pattern, per_key) in _HALF
                dtypes: tuple[str, ...] = ALL if half else FULL
                if per_key and rule == "gated":
                    dtypes = ("float32",)
                sizes = TWO_QUERIES if per_key else USUAL
                axis = "per-key" if per_key else "per-head"
                id = f"linear-attention-{kebab(rule)}-decay-{pattern}-{axis}"
                yield scenario(
                    id,
                    f"{summary[:-1]}, one gate {axis.replace('-', ' ')}.",
                    flags,
                    rule,
                    inputs(id, rule, sizes, pattern=pattern, per_key=per_key),
                    dtypes=dtypes,
                    accumulated=_ACCUMULATED.get(pattern, ()),
                )
