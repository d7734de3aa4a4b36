"""The JSON Schema of manifest.json."""

from typing import Any

from linattn_spec.generate.flags import FLAGS
from linattn_spec.safetensors_format import DTYPES
from linattn_spec.tolerances import VALUE

OPERATORS = (
    "linear_attention",
    "linear_attention_step",
    "kernelized_attention",
    "onnx_linear_attention",
    "elu_plus_one",
    "relu",
    "l2_normalize",
)
RESULT = r"(output|final_state(\.[01])?|present_state)"
# The inputs that have a gradient.
INPUT = r"(query|key|value|log_decay|beta|initial_state(\.[01])?|state|past_state|decay|x)"


def _closed(**properties: Any) -> dict[str, Any]:
    """An object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_NATURAL = {"type": "integer", "minimum": 0}
_TEXT = {"type": "string", "minLength": 1}
_CASE = _closed(
    id={"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
    summary=_TEXT,
    flags={
        "type": "array",
        "items": {"enum": sorted(FLAGS)},
        "minItems": 1,
        "uniqueItems": True,
    },
    clause=_TEXT,
    operator={"enum": list(OPERATORS)},
    dtype={"enum": list(VALUE)},
    arguments={
        "type": "object",
        "description": "Keyword arguments that are not tensors.",
        "propertyNames": {"pattern": "^[a-z_]+$"},
        "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
    },
    parts={
        "description": "null, or how many tokens each of several calls has, the state handed on.",
        "oneOf": [{"type": "null"}, {"type": "array", "items": _NATURAL, "minItems": 2}],
    },
    tokens={
        "description": "null, or the only tokens that results with a time axis hold.",
        "oneOf": [
            {"type": "null"},
            {"type": "array", "items": _NATURAL, "minItems": 1, "uniqueItems": True},
        ],
    },
    generated={
        "type": "object",
        "description": "Tensors that are not in the file but computed; see README.md.",
        "propertyNames": {"pattern": rf"^(input\.{INPUT}|cotangent\.{RESULT})$"},
        "additionalProperties": _closed(
            dtype={"enum": sorted(DTYPES)},
            shape={"type": "array", "items": _NATURAL},
            seed=_NATURAL,
            offset={"type": "integer"},
            exponent={"type": "integer"},
            sha256={"type": "string", "pattern": "^[0-9a-f]{64}$"},
        ),
    },
    file={"type": "string", "pattern": r"^cases/[a-z0-9-]+\.safetensors$"},
    tolerances={
        "type": "object",
        "description": "max |x - oracle| / max |oracle| for every expected tensor.",
        "propertyNames": {"pattern": rf"^({RESULT}|gradient\.{INPUT})$"},
        "additionalProperties": {"type": "number", "exclusiveMinimum": 0},
    },
    tolerance_reason={
        "type": ["string", "null"],
        "description": "Why a tolerance is wider than the table's.",
    },
    error={
        "description": "null for a value case; else what must be raised.",
        "oneOf": [
            {"type": "null"},
            _closed(**{"class": {"enum": ["TypeError", "ValueError"]}, "pattern": _TEXT}),
        ],
    },
)

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Manifest of the linattn fixtures",
    **_closed(cases={"type": "array", "items": {"$ref": "#/$defs/case"}, "minItems": 1}),
    "$defs": {"case": _CASE},
}
