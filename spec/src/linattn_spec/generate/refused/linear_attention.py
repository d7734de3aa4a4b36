"""linear_attention: rule "gated_delta" with every argument given, one of them spoilt."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from linattn_spec.fixtures import Array, Case
from linattn_spec.generate.draw import Shape
from linattn_spec.generate.refused.call import (
    BASE,
    GATES,
    SIZES,
    SPELLED,
    array,
    refused,
    shape_of,
    valid,
)
from linattn_spec.generate.usual import kebab

OPERATOR = "linear_attention"
NAMES = (*BASE, *GATES, "initial_state", "mask", "segment_ids")
# The first argument that has an axis is the one that others disagree with.
OWNER = dict(B="query", T="query", Dk="query", Hv="value", Dv="value")


def cases() -> Iterator[Case]:
    for group in (_ranks, _axes, _heads, _layouts, _dtypes, _arguments, _gates, _states):
        yield from group()


def _spoilt(id: str, name: str, x: Array, error: str, text: str) -> Case:
    inputs = valid(*NAMES) | {name: x}
    return refused(id, OPERATOR, inputs, {"update_rule": "gated_delta"}, error, text)


def _listed(shape: Shape) -> str:
    return str(list(shape))


def _disagreement(name: str, shape: Shape, axis: str, size: int) -> str:
    owner = OWNER[axis]
    return (
        f"{name} must have shape {SPELLED[name]}, got {_listed(shape)}: "
        f"{axis} is {size}, but {SIZES[axis]} in {owner} {_listed(shape_of(owner))}"
    )


def _ranks() -> Iterator[Case]:
    for name in NAMES:
        shape = shape_of(name)[1:]
        x = valid(name)[name][0]
        text = f"{name} must have shape {SPELLED[name]}, got {_listed(shape)}"
        yield _spoilt(f"{kebab(name)}-rank", name, x, "ValueError", text)


def _axes() -> Iterator[Case]:
    for name, axis, size in (
        ("key", "B", 3),
        ("key", "T", 6),
        ("key", "Dk", 3),
        ("value", "B", 3),
        ("value", "T", 6),
        ("log_decay", "B", 1),
        ("log_decay", "T", 6),
        ("log_decay", "Hv", 1),
        ("beta", "B", 1),
        ("beta", "T", 6),
        ("beta", "T", 1),
        ("log_decay", "Hv", 6),
        ("beta", "Hv", 6),
        ("beta", "Hv", 2),
        ("initial_state", "B", 3),
        ("initial_state", "Hv", 6),
        ("initial_state", "Dk", 5),
        ("initial_state", "Dv", 4),
        ("mask", "B", 1),
        ("mask", "T", 6),
        ("segment_ids", "B", 3),
        ("segment_ids", "T", 8),
    ):
        shape = shape_of(name, **{axis: size})
        x = array(shape, valid(name)[name].dtype)
        text = _disagreement(name, shape, axis, size)
        id = f"{kebab(name)}-{axis.lower()}"
        if (name, axis, size) in (("beta", "T", 1), ("log_decay", "Hv", 6), ("beta", "Hv", 6)):
            id += f"-{size}"
        yield _spoilt(id, name, x, "ValueError", text)
    for size in (5, 1):
        shape = (*shape_of("log_decay"), size)
        text = _disagreement("log_decay", shape, "Dk", size)
        id = "log-decay-dk" if size == 5 else "log-decay-dk-1"
        yield _spoilt(id, "log_decay", array(shape), "ValueError", text)
    shape = (1, SIZES["T"], 1)
    text = _disagreement("beta", shape, "B", 1)
    yield _spoilt("beta-shared-b", "beta", array(shape), "ValueError", text)
    shape = shape_of("initial_state", Dk=5, Dv=4)
    text = _disagreement("initial_state", shape, "Dk", 5)
    yield _spoilt("initial-state-transposed", "initial_state", array(shape), "ValueError", text)


def _heads() -> Iterator[Case]:
    value = _listed(shape_of("value"))
    shape = shape_of("key", Hk=2)
    text = (
        f"key must have shape [B, T, Hk, Dk] with Hk dividing Hv, got {_listed(shape)}: "
        f"Hk is 2, but Hv is 3 in value {value}"
    )
    yield _spoilt("key-heads", "key", array(shape), "ValueError", text)
    shape = shape_of("query", Hq=4)
    text = (
        "query must have shape [B, T, Hq, Dk] with Hq dividing Hv or Hv dividing Hq, "
        f"got {_listed(shape)}: Hq is 4, but Hv is 3 in value {value}"
    )
    yield _spoilt("query-heads", "query", array(shape), "ValueError", text)


def _layouts() -> Iterator[Case]:
    """Heads before tokens; an axis of 1 at the end; no heads and no keys at all."""
    inputs = {name: x.swapaxes(1, 2) for name, x in valid(*BASE).items()}
    text = (
        "key must have shape [B, T, Hk, Dk], got [2, 3, 7, 4]: T is 3, but 6 in query [2, 6, 7, 4]"
    )
    yield refused("heads-before-tokens", OPERATOR, inputs, {}, "ValueError", text)
    text = "mask must have shape [B, T], got [2, 7, 1]"
    yield _spoilt("mask-rank-3", "mask", array((2, 7, 1), np.bool_), "ValueError", text)
    for name, axis in (("query", "Hq"), ("key", "Hk"), ("value", "Hv"), ("query", "Dk")):
        shape = shape_of(name, **{axis: 0})
        text = f"{name} must have shape {SPELLED[name]} with {axis} >= 1, got {_listed(shape)}"
        yield _spoilt(f"{name}-{axis.lower()}-0", name, array(shape), "ValueError", text)


def _dtypes() -> Iterator[Case]:
    for name, dtype in (
        ("query", "int32"),
        ("query", "complex64"),
        ("key", "int32"),
        ("value", "complex64"),
        ("log_decay", "int32"),
        ("beta", "complex64"),
        ("initial_state", "int32"),
    ):
        text = f"{name} must have a floating-point dtype, got {dtype}"
        x = array(shape_of(name), dtype)
        yield _spoilt(f"{kebab(name)}-{dtype}", name, x, "TypeError", text)
    for name in ("key", "value"):
        text = f"{name} must have the dtype of query, float32, got float16"
        x = array(shape_of(name), np.float16)
        yield _spoilt(f"{name}-dtype", name, x, "TypeError", text)
    for name, must, dtype in (
        ("mask", "have dtype bool", "float32"),
        ("mask", "have dtype bool", "int32"),
        ("segment_ids", "have an integer dtype", "float32"),
        ("segment_ids", "have an integer dtype", "bool"),
    ):
        text = f"{name} must {must}, got {dtype}"
        x = array(shape_of(name), dtype)
        yield _spoilt(f"{kebab(name)}-{dtype}", name, x, "TypeError", text)


def _arguments() -> Iterator[Case]:
    rules = "'linear', 'gated', 'delta', 'gated_delta'"
    modes = "'auto', 'parallel', 'recurrent'"
    spoilt: tuple[tuple[str, str, Any, str, str], ...] = (
        ("update-rule", "update_rule", "foo", "ValueError", f"be one of {rules}"),
        ("execution-mode", "execution_mode", "foo", "ValueError", f"be one of {modes}"),
        ("chunk-size-0", "chunk_size", 0, "ValueError", "be an integer >= 1"),
        ("chunk-size-negative", "chunk_size", -4, "ValueError", "be an integer >= 1"),
        ("chunk-size-float", "chunk_size", 2.5, "TypeError", "be an integer >= 1"),
        ("scale", "scale", "1", "TypeError", "be a number or None"),
        ("update-rule-null", "update_rule", None, "ValueError", f"be one of {rules}"),
        ("update-rule-capital", "update_rule", "Gated_Delta", "ValueError", f"be one of {rules}"),
        ("execution-mode-null", "execution_mode", None, "ValueError", f"be one of {modes}"),
        ("chunk-size-boolean", "chunk_size", True, "TypeError", "be an integer >= 1"),
        ("chunk-size-null", "chunk_size", None, "TypeError", "be an integer >= 1"),
        ("scale-boolean", "scale", True, "TypeError", "be a number or None"),
    )
    for id, name, given, error, must in spoilt:
        arguments = {"update_rule": "gated_delta"} | {name: given}
        text = f"{name} must {must}, got {given!r}"
        yield refused(id, OPERATOR, valid(*NAMES), arguments, error, text)


def _gates() -> Iterator[Case]:
    for rule, given in (
        ("linear", ("log_decay",)),
        ("linear", ("beta",)),
        ("gated", ()),
        ("gated", GATES),
        ("delta", ()),
        ("delta", GATES),
        ("gated_delta", ("beta",)),
        ("gated_delta", ("log_decay",)),
    ):
        needed = {"log_decay": rule.startswith("gated"), "beta": rule.endswith("delta")}
        name = next(gate for gate in GATES if needed[gate] != (gate in given))
        if needed[name]:
            id, must = f"{kebab(rule)}-lacks-{kebab(name)}", "be given"
            got = "None"
        else:
            id, must = f"{kebab(rule)}-has-{kebab(name)}", "be None"
            got = f"shape {_listed(shape_of(name))}"
        text = f"{name} must {must} for update_rule '{rule}', got {got}"
        inputs = valid(*BASE, *given)
        yield refused(id, OPERATOR, inputs, {"update_rule": rule}, "ValueError", text)


def _states() -> Iterator[Case]:
    inputs = valid(*BASE) | {
        "initial_state.0": array(shape_of("initial_state")),
        "initial_state.1": array(shape_of("initial_state")[:3]),
    }
    text = "initial_state must have shape [B, Hv, Dk, Dv], got a tuple of 2"
    yield refused("initial-state-tuple", "linear_attention", inputs, {}, "ValueError", text)
