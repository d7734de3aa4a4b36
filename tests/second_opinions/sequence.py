"""The operators that are one operator: their arguments as those of linear_attention, and back.

Nothing here but reshapes and indexing, so arrays of NumPy and of PyTorch will do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OPERATORS = ("linear_attention", "linear_attention_step", "onnx_linear_attention")

# What results are called in a report, whatever the operator calls them; and the call as a whole.
_NAMES = {
    "present_state": "final_state",
    "gradient.state": "gradient.initial_state",
    "gradient.past_state": "gradient.initial_state",
    "gradient.decay": "gradient.log_decay",
}
_INPUTS = ("query", "key", "value", "log_decay", "beta", "initial_state")
RESULTS = frozenset({"output", "final_state", *(f"gradient.{name}" for name in _INPUTS)})
CALL = "the call"


@dataclass(frozen=True)
class Sequence:
    """A call of linear_attention. What is not given is None, as is the default scale."""

    update_rule: str
    query: Any
    key: Any
    value: Any
    log_decay: Any = None
    beta: Any = None
    initial_state: Any = None
    mask: Any = None
    segment_ids: Any = None
    scale: float | None = None
    chunk_size: int = 64


def as_sequence(operator: str, inputs: Mapping[str, Any], arguments: Mapping[str, Any]) -> Sequence:
    """The call of `operator`, which must be one of OPERATORS, as one of linear_attention."""
    inputs = dict(inputs)
    arguments = {name: x for name, x in arguments.items() if name != "execution_mode"}
    if operator == "linear_attention_step":
        state = inputs.pop("state")
        inputs = {name: x[:, None] for name, x in inputs.items()} | {"initial_state": state}
    elif operator == "onnx_linear_attention":
        queries, heads = arguments.pop("q_num_heads"), arguments.pop("kv_num_heads")
        inputs = {
            "query": _split(inputs["query"], queries),
            "key": _split(inputs["key"], heads),
            "value": _split(inputs["value"], heads),
            "log_decay": inputs.get("decay"),
            "beta": inputs.get("beta"),
            "initial_state": inputs.get("past_state"),
        }
        if inputs["log_decay"] is not None and inputs["log_decay"].shape[2] != heads:
            inputs["log_decay"] = _split(inputs["log_decay"], heads)
        arguments["scale"] = arguments.get("scale") or None
        arguments.setdefault("update_rule", "gated_delta")
    return Sequence(**{"update_rule": "linear"} | inputs | arguments)


def results(operator: str, output: Any, state: Any) -> dict[str, Any]:
    """What `operator` would return, by name, from what linear_attention returns."""
    if operator == "linear_attention_step":
        return {"output": output[:, 0], "final_state": state}
    if operator == "onnx_linear_attention":
        return {"output": pack(output), "present_state": state}
    return {"output": output, "final_state": state}


def common_name(tensor: str) -> str:
    return _NAMES.get(tensor, tensor)


def pack(x: Any) -> Any:
    """`[B, T, H, D]` as `[B, T, H * D]`."""
    B, T, H, D = x.shape
    return x.reshape(B, T, H * D)


def _split(x: Any, heads: int) -> Any:
    B, T, width = x.shape
    return x.reshape(B, T, heads, width // heads)
