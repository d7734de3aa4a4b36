"""What runs node tests. Each runtime says of every directory how it fails there, or None."""

import ctypes
import math
import unittest
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from directories import Run, failure, one_line, read
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner
from onnx.reference import ReferenceEvaluator
from onnxruntime.backend.backend import OnnxRuntimeBackend

from linattn_spec.onnx_node_tests import NodeTest

Failures = dict[str, str | None]
Runtime = Callable[[Path, list[NodeTest]], Failures]

onnxruntime.set_default_logger_severity(4)  # the exception says the same as the log


def onnxruntime_session(model: onnx.ModelProto) -> Run:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)

    def run(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        given = {name: _ort_value(x) for name, x in inputs.items()}
        return [_array(x) for x in session.run_with_ort_values(None, given)]

    return run


def microsoft_session(model: onnx.ModelProto) -> Run:
    """The same node in onnxruntime's own domain, where its kernel is."""
    model.graph.node[0].domain = "com.microsoft"
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return onnxruntime_session(model)


def reference_session(model: onnx.ModelProto) -> Run:
    evaluator = ReferenceEvaluator(model)
    return lambda inputs: evaluator.run(None, inputs)


def each_by(session: Callable[[onnx.ModelProto], Run]) -> Runtime:
    """The runtime that runs each model in a session, by the tolerances of the fixtures."""

    def run(directory: Path, tests: list[NodeTest]) -> Failures:
        failures: Failures = {}
        for test in tests:
            model, data_sets = read(directory / test.name)
            try:
                runs = session(model)
            except Exception as error:  # whatever a runtime raises is how it fails
                failures[test.name] = f"loading: {one_line(error)}"
            else:
                failures[test.name] = failure(runs, data_sets, test.tolerances)
        return failures

    return run


def backend_test_runner(directory: Path, tests: list[NodeTest]) -> Failures:
    """ONNX's loader and runner through onnxruntime's adapter, by the tolerance in data.json."""

    def cases(kind: str) -> list[TestCase]:
        """The runner asks for every kind that onnx has; one is ours, the others are empty."""
        ours = load_model_tests(str(directory.parent), directory.name)
        return ours if kind == "simple" else []

    with mock.patch("onnx.backend.test.runner.load_model_tests", cases):
        suite = Runner(OnnxRuntimeBackend).test_suite
    loaded = {case.id().rpartition(".")[2]: case for case in suite}
    return {test.name: _failure(loaded[f"{test.name}_cpu"]) for test in tests}


def _failure(case: unittest.TestCase) -> str | None:
    try:
        case.debug()
    except Exception as error:
        return one_line(error)
    return None


def _ort_value(x: np.ndarray) -> onnxruntime.OrtValue:
    if x.dtype == ml_dtypes.bfloat16:  # NumPy has no such dtype, so neither has onnxruntime's API
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
            x.view(np.uint16), onnx.TensorProto.BFLOAT16
        )
    return onnxruntime.OrtValue.ortvalue_from_numpy(x)


def _array(value: onnxruntime.OrtValue) -> np.ndarray:
    if value.element_type() != onnx.TensorProto.BFLOAT16:
        return value.numpy()
    memory = ctypes.c_uint16 * math.prod(value.shape())
    bits = np.array(memory.from_address(value.data_ptr()), np.uint16)
    return bits.view(ml_dtypes.bfloat16).reshape(value.shape())


RUNTIMES: dict[str, Runtime] = {
    "onnxruntime, ai.onnx": each_by(onnxruntime_session),
    "onnxruntime, com.microsoft": each_by(microsoft_session),
    "onnx reference evaluator": each_by(reference_session),
    "onnx test runner, onnxruntime": backend_test_runner,
}
