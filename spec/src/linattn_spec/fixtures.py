"""The golden fixtures: what a case is, and how the folder that holds them is read."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from linattn_spec.arrays import Array, Arrays
from linattn_spec.case_tensors import check_tensors
from linattn_spec.folder import Folder
from linattn_spec.generated import Generated, sha256
from linattn_spec.manifest_format import entries, flags, versions
from linattn_spec.safetensors_format import FixtureError, decode

__all__ = [
    "Array",
    "Arrays",
    "Case",
    "FixtureError",
    "fixtures_directory",
    "load_cases",
    "one_of_each_kind",
]


@dataclass(frozen=True, eq=False)
class Case:
    """One call of one operator, and what must come of it.

    Attributes:
        id: never reused for another case.
        summary: one sentence.
        flags: the kinds of fault it catches, explained in flags.json.
        clause: the equations it rests on.
        operator: the function's name.
        dtype: "float64", "float32", "float16" or "bfloat16"; gates and states may differ from it.
        arguments: the keyword arguments that are not tensors.
        inputs: arrays by argument name, in the exact bits of their dtype. A tuple-valued argument
            is stored item by item, as "initial_state.0", "initial_state.1".
        outputs: float64 arrays by result name, computed from exactly these inputs.
        cotangents: float64 arrays by result name, exact in the dtype of the result.
        gradients: float64 arrays by input name, of sum(cotangent * output) over the results.
        tolerances: allowed max |x - oracle| / max |oracle| by tensor name: those of `outputs`, and
            "gradient.<input name>".
        tolerance_reason: why a tolerance is wider than the table's, or None.
        error: None, or the (class name, regular expression) of what must be raised.
        parts: None, or how many tokens each of several calls has, one after the other with the
            state handed on; the results are those of all of them (parts.py).
        tokens: None, or the only tokens that outputs and gradients with a time axis hold.
        generated: the tensors that no file holds, by their names there, as "input.query".
    """

    id: str
    summary: str
    flags: tuple[str, ...]
    clause: str
    operator: str
    dtype: str
    arguments: dict[str, Any]
    inputs: Arrays
    outputs: Arrays = field(default_factory=dict)
    cotangents: Arrays = field(default_factory=dict)
    gradients: Arrays = field(default_factory=dict)
    tolerances: dict[str, float] = field(default_factory=dict)
    tolerance_reason: str | None = None
    error: tuple[str, str] | None = None
    parts: tuple[int, ...] | None = None
    tokens: tuple[int, ...] | None = None
    generated: dict[str, Generated] = field(default_factory=dict)


def fixtures_directory() -> Path:
    """Where the fixtures are: beside this file in a wheel, in spec/ in a checkout."""
    here = Path(__file__).resolve()
    for directory in (here.parent / "fixtures_data", here.parents[2] / "fixtures"):
        if directory.is_dir():
            return directory
    raise FixtureError(f"no fixtures beside {here} nor in its checkout")


def load_cases(version: str = "linattn-1", directory: str | Path | None = None) -> tuple[Case, ...]:
    """The cases of a version list, in the order of the manifest.

    Args:
        version: "linattn-1" (all that this project promises), "onnx-27", "proposals" or "tiny".
        directory: a copy of the fixtures folder, None for the one that came with this package.

    Raises:
        FixtureError: a file is missing, damaged, or differs from its hash in index.sha256; or there
            is no such version. Nothing outside the folder is read.
    """
    folder = Folder(fixtures_directory() if directory is None else directory)
    lists = versions(folder.read("versions.json"))
    if version not in lists:
        raise FixtureError(f"version must be one of {sorted(lists)!s:.200}, got {version!r:.80}")
    wanted = set(lists[version])
    everything = entries(folder.read("manifest.json"), flags(folder.read("flags.json")))
    chosen = [entry for entry in everything if entry["id"] in wanted]
    missing = wanted - {entry["id"] for entry in chosen}
    if missing:
        first = f"{sorted(missing)[:3]}, {len(missing)} in all,"
        raise FixtureError(f"manifest.json lacks {first} of version {version!r}")
    return tuple(_case(entry, folder) for entry in chosen)


def one_of_each_kind(cases: Iterable[Case]) -> list[Case]:
    """The largest case of every operator, rule, dtype and set of inputs.

    Left out are refused calls, and cases that are several calls or have results at a few tokens.
    """
    kinds: dict[Any, tuple[int, Case]] = {}
    for case in cases:
        if case.error is None and case.parts is None and case.tokens is None:
            rule = case.arguments.get("update_rule"), case.arguments.get("causal")
            kind = case.operator, rule, case.dtype, frozenset(case.inputs)
            size = sum(x.size for x in case.inputs.values())
            if kind not in kinds or size > kinds[kind][0]:
                kinds[kind] = size, case
    return [case for _, case in kinds.values()]


def _case(entry: dict[str, Any], folder: Folder) -> Case:
    tensors = decode(folder.read(entry["file"]), entry["file"])
    check_tensors(entry, tensors)
    generated = {name: _generated(recipe) for name, recipe in entry["generated"].items()}
    for name, recipe in generated.items():
        tensors[name] = recipe.array()
        tensors[name].setflags(write=False)
        if sha256(tensors[name]) != entry["generated"][name]["sha256"]:
            raise FixtureError(f"manifest.json: {entry['id']}: {name} does not have its sha256")
    groups: dict[str, Arrays] = {"input": {}, "output": {}, "cotangent": {}, "gradient": {}}
    for name, tensor in tensors.items():
        group, _, rest = name.partition(".")
        groups[group][rest] = tensor if group == "input" else tensor.astype(np.float64)
    error = entry["error"]
    return Case(
        **{name: entry[name] for name in ("id", "summary", "clause", "operator", "dtype")},
        flags=tuple(entry["flags"]),
        arguments=entry["arguments"],
        inputs=groups["input"],
        outputs=groups["output"],
        cotangents=groups["cotangent"],
        gradients=groups["gradient"],
        tolerances=entry["tolerances"],
        tolerance_reason=entry["tolerance_reason"],
        error=None if error is None else (error["class"], error["pattern"]),
        parts=None if entry["parts"] is None else tuple(entry["parts"]),
        tokens=None if entry["tokens"] is None else tuple(entry["tokens"]),
        generated=generated,
    )


def _generated(recipe: dict[str, Any]) -> Generated:
    return Generated(
        dtype=recipe["dtype"],
        shape=tuple(recipe["shape"]),
        seed=recipe["seed"],
        offset=recipe["offset"],
        exponent=recipe["exponent"],
    )
