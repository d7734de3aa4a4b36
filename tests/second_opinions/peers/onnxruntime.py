"""ONNX Runtime: the kernel of com.microsoft::LinearAttention, compiled C++ for the CPU, float32.

A query is packed with its own number of heads, a key with as many as its width holds, value, gates
and state with kv_num_heads; neighbours share. A scale of 0 means the default.
"""

from functools import cache
from typing import Any

import onnxruntime
from onnx import TensorProto, helper

from linattn_spec.arrays import Array, Arrays
from second_opinions import planted
from second_opinions.functions import RULES, Function
from second_opinions.sequence import as_sequence, pack, results

DISTRIBUTIONS = ("onnxruntime", "onnx")
PLANTED = (*planted.OUTPUTS, *planted.SCALE)
_DOMAIN = "com.microsoft"
_RESULTS = ("output", "present_state")


def _linear_attention(
    operator: str,
    inputs: dict[str, Array],
    arguments: dict[str, Any],
    cotangents: Arrays | None = None,
) -> Arrays:
    s = as_sequence(operator, inputs, arguments)
    decay = s.log_decay
    given = {
        "query": pack(s.query),
        "key": pack(s.key),
        "value": pack(s.value),
        "past_state": s.initial_state,
        "decay": pack(decay) if decay is not None and decay.ndim == 4 else decay,
        "beta": s.beta,
    }
    session = _session(
        tuple(name if x is not None else "" for name, x in given.items()),
        q_num_heads=s.query.shape[2],
        kv_num_heads=s.value.shape[2],
        update_rule=s.update_rule,
        scale=s.scale or 0.0,
        chunk_size=s.chunk_size,
    )
    output, state = session.run(None, {n: x for n, x in given.items() if x is not None})
    B, T, H = *s.query.shape[:2], max(s.query.shape[2], s.value.shape[2])
    return results(operator, output.reshape(B, T, H, s.value.shape[3]), state)


@cache
def _session(inputs: tuple[str, ...], **attributes: Any) -> onnxruntime.InferenceSession:
    """A model of this one node, with every size open."""
    node = helper.make_node("LinearAttention", inputs, _RESULTS, domain=_DOMAIN, **attributes)
    axes = {name: [None] * (4 if name == "past_state" else 3) for name in inputs if name}
    graph = helper.make_graph(
        [node],
        "linear_attention",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, x) for n, x in axes.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in _RESULTS],
    )
    versions = [helper.make_opsetid(_DOMAIN, 1), helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=versions, ir_version=10)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


FUNCTIONS = (
    Function(
        name="com.microsoft::LinearAttention",
        takes=RULES
        | {
            "per-key decay",
            "scale",
            "shared keys",
            "shared values",
            "initial state",
            "empty calls",
            "part of a chunk",
        },
        adapter=_linear_attention,
        differentiable=False,
    ),
)
