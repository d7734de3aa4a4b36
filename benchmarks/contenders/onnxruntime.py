"""ONNX Runtime's compiled kernel, com.microsoft::LinearAttention; it has no gradient."""

import os
from types import SimpleNamespace

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from benchmarks.contenders import Contender
from benchmarks.problems import LINEAR

DOMAIN = "com.microsoft"
RESULTS = ("output", "present_state")
# The operator's inputs in its order, and what they are called here.
INPUTS = {
    "query": "query",
    "key": "key",
    "value": "value",
    "past_state": None,
    "decay": "log_decay",
    "beta": "beta",
}

FRAMEWORK = SimpleNamespace(use=lambda threads: None, arrays=lambda results: results)


def _takes(problem, which):
    return problem.rule in LINEAR and problem.dtype == "float32" and which == "forward"


def _build(problem, which, inputs, cotangents):
    batch, tokens, heads, width = problem.shape
    # [B, T, H, D] is packed as [B, T, H * D], which moves nothing.
    given = {
        name: np.array(inputs[ours]).reshape(batch, tokens, -1)
        for name, ours in INPUTS.items()
        if ours in inputs
    }
    session = _session(given, heads, problem.rule)
    values = {n: onnxruntime.OrtValue.ortvalue_from_numpy(x) for n, x in given.items()}

    def call():
        output, state = session.run_with_ort_values(None, values)
        shaped = output.numpy().reshape(batch, tokens, heads, width)
        return {"output": shaped, "final_state": state.numpy()}

    return call


def _session(given, heads, rule):
    last = max(list(INPUTS).index(name) for name in given)
    names = [name if name in given else "" for name in INPUTS][: last + 1]
    node = helper.make_node(
        "LinearAttention",
        names,
        RESULTS,
        domain=DOMAIN,
        q_num_heads=heads,
        kv_num_heads=heads,
        update_rule=rule,
    )
    graph = helper.make_graph(
        [node],
        "linear_attention",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n, x in given.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in RESULTS],
    )
    versions = [helper.make_opsetid(DOMAIN, 1), helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=versions, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)


CONTENDERS = {"onnxruntime": Contender(_takes, _build)}
