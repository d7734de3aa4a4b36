"""What is known to fail, and what is not as known."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from runtimes import Failures

from linattn_spec.onnx_node_tests import NodeTest


@dataclass(frozen=True)
class Known:
    """Every test that `applies` fails on `runtime`, with a message that `pattern` is found in."""

    runtime: str
    tests: str
    applies: Callable[[NodeTest], bool]
    pattern: str
    reason: str


def _empty(test: NodeTest) -> bool:
    return any(0 in call.inputs["query"].shape[:2] for call in test.calls)


def _bfloat16(test: NodeTest) -> bool:
    return any(x.dtype == "bfloat16" for x in test.calls[0].inputs.values())


def _full_and_bfloat16(test: NodeTest) -> bool:
    return _bfloat16(test) and not _empty(test)


_RESHAPE = (
    "The function body of the operator, which onnxruntime runs, reshapes with a -1 that cannot be "
    "inferred when T or B is 0."
)
KNOWN = (
    Known("onnxruntime, ai.onnx", "T = 0 or B = 0", _empty, r"Reshape.*requested shape", _RESHAPE),
    Known(
        "onnxruntime, com.microsoft",
        "bfloat16",
        _bfloat16,
        r"NOT_IMPLEMENTED.*LinearAttention",
        "The kernel is float32. onnxruntime inserts casts around it for float16, not for bfloat16.",
    ),
    Known(
        "onnx test runner, onnxruntime",
        "T = 0 or B = 0",
        _empty,
        r"Reshape.*requested shape",
        _RESHAPE,
    ),
    Known(
        "onnx test runner, onnxruntime",
        "bfloat16",
        _full_and_bfloat16,
        r"Numpy_type \d+ can't be converted",
        "onnxruntime's adapter hands over NumPy arrays, and its Python API knows bfloat16 in none.",
    ),
)


def surprises(
    tests: list[NodeTest], results: dict[str, Failures], known: tuple[Known, ...] = KNOWN
) -> list[str]:
    """Every failure that is not known, and every known failure that is none or another."""
    found = []
    for runtime, failures in results.items():
        for test in tests:
            failure = failures[test.name]
            expected = [k for k in known if k.runtime == runtime and k.applies(test)]
            where = f"{runtime}: {test.name}"
            if failure is not None and not any(re.search(k.pattern, failure) for k in expected):
                found.append(f"{where}: {failure}")
            elif failure is None and expected:
                found.append(f"{where}: passes, but is known to fail: {expected[0].tests}")
    return found
