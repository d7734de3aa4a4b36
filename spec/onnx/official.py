"""ONNX's own node cases of the operator: what they hold, and what their runner accepts."""

import warnings
from dataclasses import dataclass

import numpy as np
from onnx import helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.runner import Runner

from linattn_spec.fixtures import Arrays, Case


@dataclass(frozen=True)
class Official:
    """A node case as a fixture case, and the results as it holds them."""

    case: Case
    expected: tuple[np.ndarray, ...]
    rtol: float
    atol: float


def official_cases() -> list[Official]:
    """All that the installed onnx has of LinearAttention, without their expansions to its body."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other operators' cases overflow on purpose
        found = collect_testcases("LinearAttention")
    return [_official(x) for x in found if x.model.graph.node[0].op_type == "LinearAttention"]


def _official(found: TestCase) -> Official:
    ((inputs, outputs),) = found.data_sets
    (node,) = found.model.graph.node
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if "update_rule" in attributes:
        attributes["update_rule"] = attributes["update_rule"].decode()
    names = [name for name in node.input if name]
    case = Case(
        id=found.name,
        summary=f"{found.name} of the installed onnx.",
        flags=(),
        clause="equations (15)-(16)",
        operator="onnx_linear_attention",
        dtype=str(inputs[0].dtype),
        arguments=attributes,
        inputs=dict(zip(names, inputs, strict=True)),
        outputs={name: x.astype(np.float64) for name, x in zip(node.output, outputs, strict=True)},
        tolerances=dict.fromkeys(node.output, found.rtol),
    )
    return Official(case, tuple(outputs), found.rtol, found.atol)


def accepts(official: Official, results: Arrays) -> bool:
    """Whether ONNX's runner would accept these results, each rounded to the dtype it expects."""
    names = official.case.outputs
    got = [np.asarray(results[name]) for name in names]
    with np.errstate(over="ignore"):
        got = [x.astype(y.dtype) for x, y in zip(got, official.expected, strict=True)]
    try:
        Runner.assert_similar_outputs(official.expected, got, official.rtol, official.atol)
    except AssertionError:
        return False
    return True
