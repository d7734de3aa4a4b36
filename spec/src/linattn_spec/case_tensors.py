"""Which tensors a case may hold, by name, dtype and shape: what its operator takes and returns."""

from typing import Any

from linattn_spec.arrays import Arrays
from linattn_spec.parts import has_time_axis
from linattn_spec.safetensors_format import NAMES, FixtureError

_SEQUENCES = ("query", "key", "value")
_STATE_OUT = ("output", "final_state")
INPUTS = {
    "linear_attention": (
        *_SEQUENCES,
        *("log_decay", "beta", "initial_state", "mask", "segment_ids"),
    ),
    "linear_attention_step": (*_SEQUENCES, "state", "log_decay", "beta"),
    "kernelized_attention": (*_SEQUENCES, "initial_state", "mask", "segment_ids"),
    "onnx_linear_attention": (*_SEQUENCES, "past_state", "decay", "beta"),
    "elu_plus_one": ("x",),
    "relu": ("x",),
    "l2_normalize": ("x",),
}
RESULTS = {
    "linear_attention": _STATE_OUT,
    "linear_attention_step": _STATE_OUT,
    "kernelized_attention": _STATE_OUT,
    "onnx_linear_attention": ("output", "present_state"),
    "elu_plus_one": ("output",),
    "relu": ("output",),
    "l2_normalize": ("output",),
}
_FLOATS = ("F64", "F32", "F16", "BF16")
# A state is one tensor, or a tuple that is stored item by item.
_ITEMS = {f"{state}.{i}": state for state in ("initial_state", "final_state") for i in (0, 1)}

# The dtype, by its name in the file, and the shape.
_Kind = tuple[str, tuple[int, ...]]
_Kinds = dict[str, _Kind]


def takes(operator: str, name: str) -> bool:
    """Whether `name` is a tensor that the operator takes, or an item of one."""
    return _ITEMS.get(name, name) in INPUTS[operator]


def returns(operator: str, name: str) -> bool:
    """Whether `name` is a tensor that the operator returns, or an item of one."""
    return _ITEMS.get(name, name) in RESULTS[operator]


def check_tensors(entry: dict[str, Any], tensors: Arrays) -> None:
    """Whether a file holds, with the tensors that `entry` generates, one case and nothing else.

    Args:
        entry: of the manifest, as `manifest_format.entries` returns it.
        tensors: of the entry's file, as `decode` returns them.

    Raises:
        FixtureError: naming the file and the tensor.
    """
    try:
        groups = _groups(entry, tensors)
        _check_inputs(entry, groups["input"])
        if entry["error"] is None:
            _check_results(entry, groups)
        elif groups["output"] or groups["cotangent"] or groups["gradient"]:
            raise FixtureError("a refused call has inputs only")
    except FixtureError as error:
        raise FixtureError(f"{entry['file']}: {error}") from None


def _groups(entry: dict[str, Any], tensors: Arrays) -> dict[str, _Kinds]:
    groups: dict[str, _Kinds] = {"input": {}, "output": {}, "cotangent": {}, "gradient": {}}
    kinds = {name: (NAMES[x.dtype], x.shape) for name, x in tensors.items()}
    for name, recipe in entry["generated"].items():
        if name in kinds:
            raise FixtureError(f"tensor {name!r} is in the file, and generated")
        kinds[name] = recipe["dtype"], tuple(recipe["shape"])
    for name, kind in kinds.items():
        group, _, rest = name.partition(".")
        if group not in groups:
            raise FixtureError(f"tensor {name!r} belongs to no group")
        known = takes if group in ("input", "gradient") else returns
        if not known(entry["operator"], rest):
            raise FixtureError(f"tensor {name!r} is none of {entry['operator']}")
        groups[group][rest] = kind
    for group in groups:
        _check_items(groups[group])
    return groups


def _check_items(kinds: _Kinds) -> None:
    for state in set(_ITEMS.values()):
        present = {name for name in kinds if _ITEMS.get(name, name) == state}
        first, second = f"{state}.0", f"{state}.1"
        if present not in (set(), {state}, {first}, {first, second}):
            raise FixtureError(f"{state} is neither one tensor nor a tuple")


def _check_inputs(entry: dict[str, Any], inputs: _Kinds) -> None:
    for name in INPUTS[entry["operator"]]:
        if name in (*_SEQUENCES, "x") and name not in inputs:
            raise FixtureError(f"lacks the tensor 'input.{name}'")
    parts, tokens = entry["parts"], entry["tokens"]
    if parts is None and tokens is None:
        return
    if entry["operator"] in ("linear_attention_step", "elu_plus_one", "relu", "l2_normalize"):
        raise FixtureError(f"{entry['operator']} has no tokens to choose from")
    lengths = {shape[1:2] for name, (_, shape) in inputs.items() if has_time_axis(name)}
    if len(lengths) != 1 or lengths == {()}:
        raise FixtureError("the inputs have no number of tokens in common")
    (length,) = lengths.pop()
    if parts is not None and sum(parts) != length:
        raise FixtureError(f"has {length} tokens, but its parts {sum(parts)}")
    if tokens is not None and tokens[-1] >= length:
        raise FixtureError(f"has {length} tokens, so none with the index {tokens[-1]}")


def _check_results(entry: dict[str, Any], groups: dict[str, _Kinds]) -> None:
    inputs, outputs = groups["input"], groups["output"]
    cotangents, gradients = groups["cotangent"], groups["gradient"]
    expected = set(outputs) | {f"gradient.{name}" for name in gradients}
    if not outputs or set(entry["tolerances"]) != expected:
        raise FixtureError(f"has the results {sorted(expected)}, and tolerances for others")
    if set(cotangents) != (set(outputs) if gradients else set()):
        raise FixtureError("needs a cotangent for each result if it has gradients, else none")
    tokens = entry["tokens"]
    for name, (dtype, shape) in gradients.items():
        if name not in inputs or inputs[name][0] not in _FLOATS or dtype != "F64":
            raise FixtureError(f"tensor 'gradient.{name}' is not F64 or not of a float input")
        _check_shape(f"gradient.{name}", shape, _at(tokens, name, inputs[name][1]))
    for name, (dtype, shape) in outputs.items():
        if dtype != "F64":
            raise FixtureError(f"tensor 'output.{name}' is {dtype}, not F64")
        if name in cotangents:
            if cotangents[name][0] != "F16":
                raise FixtureError(f"tensor 'cotangent.{name}' is {cotangents[name][0]}, not F16")
            _check_shape(f"output.{name}", shape, _at(tokens, name, cotangents[name][1]))


def _at(tokens: list[int] | None, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    if tokens is None or not has_time_axis(name):
        return shape
    return (*shape[:1], len(tokens), *shape[2:])


def _check_shape(name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if shape != expected:
        raise FixtureError(f"tensor {name!r} has shape {list(shape)}, expected {list(expected)}")
