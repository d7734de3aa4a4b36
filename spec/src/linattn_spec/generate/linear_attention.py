"""Scenarios of linear_attention, but for its gates, delta rules and padding, and of its step."""

from collections.abc import Iterator
from dataclasses import replace

from linattn_spec.fixtures import Arrays
from linattn_spec.generate.scenario import ALL, FULL, HALF, Recipe, Scenario
from linattn_spec.generate.usual import (
    GROUPED_BY_8,
    GROUPED_KEYS,
    GROUPED_QUERIES,
    GROUPED_VALUES,
    LONG,
    LONGEST,
    MEDIUM,
    MULTI_QUERY,
    USUAL,
    WHOLE,
    inputs,
    kebab,
    scenario,
)
from linattn_spec.linear_attention import UPDATE_RULES


def rules() -> Iterator[Scenario]:
    for rule in UPDATE_RULES:
        id = f"linear-attention-{kebab(rule)}"
        yield scenario(
            id,
            f"Rule {rule} over three chunks, the last one short, from a given state.",
            ("state-one-token", "state-gradient-dropped", "state-precision", "transposed-state"),
            rule,
            inputs(id, rule),
            dtypes=ALL,
        )
    for rule in ("linear", "gated_delta"):
        id = f"linear-attention-{kebab(rule)}-no-state"
        yield scenario(
            id,
            f"Rule {rule} from a state of zeros that is not given.",
            ("chunk-remainder",),
            rule,
            inputs(id, rule, state=False),
            dtypes=("float64",),
        )


def lengths() -> Iterator[Scenario]:
    for rule in UPDATE_RULES:
        for T in (0, 1, 2, 3, 4, 5):
            id = f"linear-attention-{kebab(rule)}-length-{T}"
            yield scenario(
                id,
                f"{T} tokens in chunks of 4, from a given state.",
                ("short-sequence",) if T < 3 else ("chunk-remainder", "compiled-differs"),
                rule,
                inputs(id, rule, replace(USUAL, T=T)),
                dtypes=FULL if rule == "gated_delta" and T == 5 else ("float64",),
            )
    id = "linear-attention-gated-delta-batch-0"
    yield scenario(
        id,
        "An empty batch.",
        ("short-sequence",),
        "gated_delta",
        inputs(id, "gated_delta", replace(USUAL, B=0)),
        dtypes=("float64",),
    )


def chunks() -> Iterator[Scenario]:
    for name, flag, sizes, rule, pattern, dtypes in (
        ("medium", "transposed-state", MEDIUM, "linear", "one", ("float64",)),
        ("medium", "gate-zero", MEDIUM, "gated_delta", "zeros-mixed-in", FULL),
        ("five", "exp-before-mask", LONG, "gated", "five", ("float32",)),
        ("five", "exp-before-mask", LONG, "gated_delta", "five", ("float32",)),
        ("strong-first", "zero-times-infinity", LONG, "gated_delta", "strong-first", ("float32",)),
        ("strong-last", "zero-times-infinity", LONG, "gated_delta", "strong-last", ("float32",)),
        ("whole", "zero-times-infinity", WHOLE, "gated_delta", "strong-first", ("float32",)),
        ("whole", "zero-times-infinity", WHOLE, "gated", "strong-last", ("float32",)),
        ("longest", "state-precision", LONGEST, "gated_delta", "hundredth", ("bfloat16",)),
    ):
        id = f"linear-attention-{kebab(rule)}-chunk-{sizes.chunk}-{name}"
        yield scenario(
            id,
            f"{sizes.T} tokens in chunks of {sizes.chunk}.",
            (flag, "chunk-remainder"),
            rule,
            inputs(id, rule, sizes, pattern=pattern),
            sizes=sizes,
            dtypes=dtypes,
        )


def odd_chunks() -> Iterator[Scenario]:
    for rule, chunk in (("gated_delta", 6), ("linear", 3), ("delta", 7)):
        id = f"linear-attention-{kebab(rule)}-chunk-{chunk}"
        yield scenario(
            id,
            f"11 tokens in chunks of {chunk}, which is no power of two.",
            ("chunk-remainder",),
            rule,
            inputs(id, rule),
            sizes=replace(USUAL, chunk=chunk),
            dtypes=("float64",),
        )


def futures() -> Iterator[Scenario]:
    """Loud later tokens, results at the quiet earlier ones alone."""
    quiet = 6  # inside the second chunk of 4
    for rule in UPDATE_RULES:
        id = f"linear-attention-{kebab(rule)}-future-loud"
        arrays = inputs(id, rule)
        arrays["value"][:, quiet:] *= 1e4
        n = USUAL
        yield scenario(
            id,
            f"Values are 10,000 times louder from token {quiet} on, and not heard before it.",
            ("future-leak",),
            rule,
            arrays,
            dtypes=FULL if rule == "gated_delta" else ("float32",),
            tokens=tuple(range(quiet)),
            generated={"output": Recipe((n.B, n.T, max(n.Hq, n.Hv), n.Dv), -128, -6)},
        )


def scales() -> Iterator[Scenario]:
    for rule, scale, name in (("gated_delta", 0.0, "0"), ("linear", -0.75, "explicit")):
        id = f"linear-attention-{kebab(rule)}-scale-{name}"
        yield scenario(
            id,
            f"Scale {scale} is used as it is.",
            ("scale-replaced",),
            rule,
            inputs(id, rule),
            arguments={"scale": scale},
            dtypes=FULL if scale == 0.0 else ("float64",),
        )


def groups() -> Iterator[Scenario]:
    for name, sizes, rule in (
        ("queries-4", GROUPED_QUERIES, "gated_delta"),
        ("queries-4", GROUPED_QUERIES, "linear"),
        ("queries-8", MULTI_QUERY, "gated_delta"),
        ("queries-8-of-2", GROUPED_BY_8, "gated_delta"),
        ("keys-3", GROUPED_KEYS, "gated"),
        ("keys-3", GROUPED_KEYS, "gated_delta"),
        ("values-3", GROUPED_VALUES, "gated_delta"),
        ("values-3", GROUPED_VALUES, "linear"),
    ):
        id = f"linear-attention-{kebab(rule)}-grouped-{name}"
        yield scenario(
            id,
            f"{sizes.Hq} query, {sizes.Hk} key and {sizes.Hv} value heads; neighbours share.",
            ("tile-for-repeat", "output-heads"),
            rule,
            inputs(id, rule, sizes),
            sizes=sizes,
            dtypes=("float32",) if rule == "gated_delta" else ("float64",),
        )


def mixed_dtypes() -> Iterator[Scenario]:
    single = dict.fromkeys(("log_decay", "beta", "initial_state"), "float32")
    gates = dict.fromkeys(("log_decay", "beta"), "float32")
    for name, own, dtypes in (
        ("float32-gates", gates, ("float64",)),
        ("half-gates", {"log_decay": "bfloat16", "beta": "float16"}, ("float32",)),
        ("half-state", {"initial_state": "float16"}, ("float32",)),
        ("float32-gates-and-state", single, HALF),
        ("float32-state", {"initial_state": "float32"}, ("bfloat16",)),
    ):
        id = f"linear-attention-gated-delta-mixed-{name}"
        yield scenario(
            id,
            "Gates or state in another dtype than query, key and value.",
            ("mixed-dtypes", "state-precision"),
            "gated_delta",
            inputs(id, "gated_delta"),
            dtypes=dtypes,
            input_dtypes=own,
        )


def steps() -> Iterator[Scenario]:
    for rule, per_key, shared in (
        ("linear", False, False),
        ("gated", True, False),
        ("delta", False, True),
        ("gated_delta", False, False),
    ):
        id = f"linear-attention-step-{kebab(rule)}"
        sizes = replace(USUAL, T=1)
        arrays = _token(inputs(id, rule, sizes, per_key=per_key, beta=(0.0, 2.0)))
        if shared:
            arrays["beta"] = arrays["beta"][:, :1]
        yield Scenario(
            id=id,
            summary=f"One token of rule {rule} from a state.",
            flags=("state-one-token", "state-precision", "transposed-state"),
            clause="equation (6)",
            operator="linear_attention_step",
            arguments={"update_rule": rule},
            inputs=arrays,
            dtypes=ALL if rule == "gated_delta" else ("float64",),
        )


def grouped_step() -> Iterator[Scenario]:
    id = "linear-attention-step-gated-delta-grouped"
    sizes = replace(USUAL, T=1, Hq=8, Hk=2, Hv=4, Dk=3)
    yield Scenario(
        id=id,
        summary="8 query, 2 key and 4 value heads; neighbours share.",
        flags=("tile-for-repeat", "output-heads"),
        clause="equation (6)",
        operator="linear_attention_step",
        arguments={"update_rule": "gated_delta"},
        inputs=_token(inputs(id, "gated_delta", sizes)),
    )


def _token(arrays: Arrays) -> Arrays:
    """The inputs of a call at T = 1 as those of a step."""
    token = {name: x if name == "initial_state" else x[:, 0] for name, x in arrays.items()}
    token["state"] = token.pop("initial_state")
    return token


def scenarios() -> Iterator[Scenario]:
    sequences = (rules, lengths, chunks, odd_chunks, futures, scales, groups, mixed_dtypes)
    for group in (*sequences, steps, grouped_step):
        yield from group()
