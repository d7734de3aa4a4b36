"""Node tests as files. This module needs onnx, and an onnx that knows opset 27."""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from linattn_spec.arrays import Array
from linattn_spec.onnx_node_tests.node_test import INPUTS, OUTPUTS, NodeTest

OPSET = 27
IR_VERSION = 13

if onnx.defs.onnx_opset_version() < OPSET:
    raise ImportError(f"onnx {onnx.__version__} does not know opset {OPSET}")


def write(test: NodeTest, directory: Path) -> None:
    """Makes the directory of one node test in `directory`, the same bytes for the same test."""
    folder = directory / test.name
    folder.mkdir()
    model = _model(test)
    onnx.checker.check_model(model, full_check=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
    (folder / "data.json").write_text(json.dumps({"rtol": 0.0, "atol": _distance(test)}) + "\n")
    for i, call in enumerate(test.calls):
        data = folder / f"test_data_set_{i}"
        data.mkdir()
        for kind, tensors in (("input", call.inputs), ("output", call.outputs)):
            for j, (name, x) in enumerate(tensors.items()):
                tensor = numpy_helper.from_array(x, name)
                (data / f"{kind}_{j}.pb").write_bytes(tensor.SerializeToString(deterministic=True))


def _distance(test: NodeTest) -> float:
    """The largest |x - expected| that the tolerances allow in any of the outputs.

    ONNX's runner takes it from data.json. Its own tolerance is relative to each single element, and
    so refuses correct float32 wherever terms cancel.
    """
    return max(
        test.tolerances[name] * float(np.max(np.abs(x.astype(np.float64)), initial=0))
        for call in test.calls
        for name, x in call.outputs.items()
    )


def _model(test: NodeTest) -> onnx.ModelProto:
    given = list(test.calls[0].inputs)
    present = INPUTS[: 1 + INPUTS.index(given[-1])]
    node = helper.make_node(
        "LinearAttention",
        inputs=[name if name in given else "" for name in present],
        outputs=list(OUTPUTS),
        **test.attributes,
    )
    graph = helper.make_graph(
        [node],
        test.name,
        inputs=[_value_info(test, "inputs", name) for name in given],
        outputs=[_value_info(test, "outputs", name) for name in OUTPUTS],
        doc_string=test.summary,
    )
    return helper.make_model(
        graph,
        producer_name="linattn-spec",
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)],
    )


def _value_info(test: NodeTest, group: str, name: str) -> onnx.ValueInfoProto:
    """Fixed sizes; "T" for the tokens of a case in parts, whose calls differ in it alone."""
    arrays: list[Array] = [getattr(call, group)[name] for call in test.calls]
    shape: list[int | str] = list(arrays[0].shape)
    if len(arrays) > 1 and "state" not in name:
        shape[1] = "T"
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(arrays[0].dtype), shape
    )
