"""A fixture case as calls of the ONNX operator, or why it cannot be expressed as such."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np

from linattn_spec.arrays import Array, Arrays
from linattn_spec.fixtures import Case
from linattn_spec.onnx_linear_attention import onnx_linear_attention

INPUTS = ("query", "key", "value", "past_state", "decay", "beta")
OUTPUTS = ("output", "present_state")
DTYPES = ("float32", "float16", "bfloat16")
LONGEST = 4096

_OPERATORS = ("linear_attention", "linear_attention_step", "onnx_linear_attention")


@dataclass(frozen=True)
class Call:
    """One call: arrays by the operator's names and in its order."""

    inputs: Arrays
    outputs: Arrays


@dataclass(frozen=True)
class NodeTest:
    """A case in the operator's terms.

    Attributes:
        name: "test_linattn_" and the case's id in snake_case.
        summary: the case's.
        attributes: those of the node.
        calls: one; for a case in parts one each, from the state that the call before returns.
        tolerances: allowed max |x - expected| / max |expected| by output.
    """

    name: str
    summary: str
    attributes: dict[str, Any]
    calls: tuple[Call, ...]
    tolerances: dict[str, float]


def obstacle(case: Case) -> str | None:
    """Why the operator cannot express `case`, or None if it can."""
    if case.error is not None:
        return "a call that is refused"
    if case.operator not in _OPERATORS:
        return "another operator"
    if case.dtype not in DTYPES:
        return case.dtype
    for name in ("mask", "segment_ids"):
        if name in case.inputs:
            return name
    gates = [case.inputs[name] for name in ("log_decay", "decay", "beta") if name in case.inputs]
    if any(gate.dtype != case.dtype for gate in gates):
        return "gates in a dtype of their own"
    if case.operator != "onnx_linear_attention" and case.arguments.get("scale") == 0:
        return "scale 0.0, which the operator takes for its default"
    if case.operator != "linear_attention_step" and case.inputs["query"].shape[1] > LONGEST:
        return f"more than {LONGEST} tokens"
    return None


def node_test(case: Case) -> NodeTest:
    """The calls that express `case`, which must have no obstacle.

    What they expect comes from the definition, for the very inputs and attributes written, and is
    rounded once to the dtype it is returned in.
    """
    if case.operator == "onnx_linear_attention":
        inputs, attributes = dict(case.inputs), dict(case.arguments)
    else:
        inputs, attributes = _translated(case)
    if "scale" in attributes:
        attributes["scale"] = float(np.float32(attributes["scale"]))  # what a node can hold
    if case.parts is not None and "past_state" not in inputs:
        inputs["past_state"] = _zeros(case).astype(inputs["query"].dtype)
    tolerances = [case.tolerances[name] for name in ("output", _state(case))]
    return NodeTest(
        name="test_linattn_" + case.id.replace("-", "_"),
        summary=case.summary,
        attributes=attributes,
        calls=tuple(_calls(inputs, attributes, case.parts)),
        tolerances=dict(zip(OUTPUTS, tolerances, strict=True)),
    )


def _translated(case: Case) -> tuple[Arrays, dict[str, Any]]:
    """The inputs and attributes of the operator for a case of linear_attention or of its step.

    A query or key head that value heads share is written once for each of them: the operator knows
    no such sharing. The state is float32, which holds every float16 and bfloat16 exactly, and
    always there, because linear_attention returns one in float32 and the operator one like it.
    """
    tokens = dict(case.inputs)
    if case.operator == "linear_attention_step":
        state = tokens.pop("state")
        tokens = {name: x[:, None] for name, x in tokens.items()}
    else:
        state = tokens.pop("initial_state", _zeros(case))
    Hv = tokens["value"].shape[2]
    for name in ("query", "key"):
        tokens[name] = tokens[name].repeat(max(Hv // tokens[name].shape[2], 1), axis=2)
    inputs = {
        "decay" if name == "log_decay" else name: x.reshape(*x.shape[:2], math.prod(x.shape[2:]))
        for name, x in tokens.items()
    }
    inputs["past_state"] = state.astype(np.float32)
    attributes: dict[str, Any] = {
        "update_rule": case.arguments.get("update_rule", "linear"),
        "q_num_heads": tokens["query"].shape[2],
        "kv_num_heads": Hv,
    }
    for name in ("scale", "chunk_size"):
        if case.arguments.get(name) is not None:
            attributes[name] = case.arguments[name]
    return inputs, attributes


def _state(case: Case) -> str:
    (name,) = case.outputs.keys() - {"output"}
    return name


def _zeros(case: Case) -> Array:
    return np.zeros(case.outputs[_state(case)].shape)


def _calls(
    inputs: Arrays, attributes: dict[str, Any], parts: tuple[int, ...] | None
) -> Iterator[Call]:
    arguments = {name: x for name, x in attributes.items() if name != "chunk_size"}
    dtype = inputs["query"].dtype
    given: dict[str, Any] = {name: inputs[name] for name in INPUTS if name in inputs}
    lengths = (inputs["query"].shape[1],) if parts is None else parts
    ends = np.cumsum((0, *lengths)).tolist()
    for first, last in pairwise(ends):
        for name in inputs.keys() - {"past_state"}:
            given[name] = inputs[name][:, first:last]
        output, state = onnx_linear_attention(**given, **arguments)
        state = rounded(state, given.get("past_state", inputs["query"]).dtype)
        yield Call(dict(given), {"output": rounded(output, dtype), "present_state": state})
        if parts is not None:
            given["past_state"] = state


def rounded(x: Array, dtype: np.dtype[Any]) -> Array:
    """Float64 to `dtype` in one rounding, to nearest even.

    ml_dtypes goes to bfloat16 by way of float32. A float32 that is cut off instead of rounded, with
    its last bit set if that lost anything, has all that the second rounding needs to know.
    """
    if dtype != ml_dtypes.bfloat16:
        return x.astype(dtype)
    single = x.astype(np.float32)
    bits = single.view(np.uint32)
    bits = np.where(np.abs(single) > np.abs(x), bits - np.uint32(1), bits)
    bits = np.where(single != x, bits | np.uint32(1), bits)
    return bits.view(np.float32).astype(dtype)
