"""The files of the fixtures folder, as bytes, from the cases."""

import hashlib
import json
from dataclasses import asdict
from typing import Any

import numpy as np

from linattn_spec.fixtures import Arrays, Case
from linattn_spec.folder import INDEX
from linattn_spec.generate import inline
from linattn_spec.generate.flags import FLAGS
from linattn_spec.generate.schema import SCHEMA
from linattn_spec.generated import sha256
from linattn_spec.safetensors_format import encode

Files = dict[str, bytes]
BY_HAND = ("README.md", "CHANGELOG.md")


def files(cases: list[Case]) -> Files:
    """Every generated file of the folder, a dict from relative path to bytes."""
    contents = {
        "flags.json": _json(FLAGS),
        "manifest.json": _json({"cases": [_entry(case) for case in cases]}),
        "manifest.schema.json": _json(SCHEMA),
        "versions.json": _json(_versions(cases)),
    }
    contents |= {_path(case): encode(_tensors(case)) for case in cases}
    contents |= {
        inline.path(case.id): inline.text(_entry(case), _tensors(case))
        for case in cases
        if inline.is_tiny(case.id)
    }
    return contents | {INDEX: index(contents)}


def index(contents: Files) -> bytes:
    """The hash of every file but itself, as the command sha256sum writes and checks it."""
    hashes = {path: hashlib.sha256(data).hexdigest() for path, data in contents.items()}
    return "".join(f"{hashes[path]}  {path}\n" for path in sorted(hashes)).encode()


def _path(case: Case) -> str:
    return f"cases/{case.id}.safetensors"


def _entry(case: Case) -> dict[str, Any]:
    return {
        "id": case.id,
        "summary": case.summary,
        "flags": list(case.flags),
        "clause": case.clause,
        "operator": case.operator,
        "dtype": case.dtype,
        "arguments": case.arguments,
        "parts": case.parts and list(case.parts),
        "tokens": case.tokens and list(case.tokens),
        "file": _path(case),
        "generated": {name: _recipe(case, name) for name in case.generated},
        "tolerances": case.tolerances,
        "tolerance_reason": case.tolerance_reason,
        "error": case.error and {"class": case.error[0], "pattern": case.error[1]},
    }


def _tensors(case: Case) -> Arrays:
    """The tensors of a case's file. Cotangents are exact in float16, which is the smallest."""
    cotangents = {name: x.astype(np.float16) for name, x in case.cotangents.items()}
    groups = {
        "input": case.inputs,
        "output": case.outputs,
        "cotangent": cotangents,
        "gradient": case.gradients,
    }
    named = {f"{group}.{name}": x for group, named in groups.items() for name, x in named.items()}
    return {name: x for name, x in named.items() if name not in case.generated}


def _recipe(case: Case, name: str) -> dict[str, Any]:
    recipe = case.generated[name]
    return asdict(recipe) | {"sha256": sha256(recipe.array())}


def _versions(cases: list[Case]) -> dict[str, list[str]]:
    """Which cases rest on which text. A case can be in several lists."""
    return {
        "linattn-1": [case.id for case in cases],
        "onnx-27": [case.id for case in cases if case.operator == "onnx_linear_attention"],
        "tiny": [case.id for case in cases if inline.is_tiny(case.id)],
        "proposals": [case.id for case in cases if case.operator == "kernelized_attention"],
    }


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
