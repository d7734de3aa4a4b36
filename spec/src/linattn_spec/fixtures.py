"""The golden fixtures: what a case is, and how the folder that holds them is read."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from linattn_spec.arrays import Array, Arrays
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
        version: "linattn-1" (all that this project promises), "onnx-27" or "proposals".
        directory: a copy of the fixtures folder, None for the one that came with this package.

    Raises:
        FixtureError: a file is missing, damaged, or differs from its hash in index.sha256; or there
            is no such version.
    """
    folder = _Folder(fixtures_directory() if directory is None else directory)
    versions = folder.json("versions.json")
    if version not in versions:
        raise FixtureError(f"version must be one of {sorted(versions)}, got {version!r}")
    wanted = set(versions[version])
    entries = [entry for entry in folder.json("manifest.json")["cases"] if entry["id"] in wanted]
    missing = wanted - {entry["id"] for entry in entries}
    if missing:
        raise FixtureError(f"manifest.json lacks {sorted(missing)} of version {version!r}")
    return tuple(_case(entry, folder) for entry in entries)


def one_of_each_kind(cases: Iterable[Case]) -> list[Case]:
    """The largest case of every operator, rule, dtype and set of inputs; no refused call."""
    kinds: dict[Any, tuple[int, Case]] = {}
    for case in cases:
        if case.error is None:
            rule = case.arguments.get("update_rule"), case.arguments.get("causal")
            kind = case.operator, rule, case.dtype, frozenset(case.inputs)
            size = sum(x.size for x in case.inputs.values())
            if kind not in kinds or size > kinds[kind][0]:
                kinds[kind] = size, case
    return [case for _, case in kinds.values()]


def _case(entry: dict[str, Any], folder: "_Folder") -> Case:
    groups: dict[str, Arrays] = {"input": {}, "output": {}, "cotangent": {}, "gradient": {}}
    for name, tensor in decode(folder.read(entry["file"]), entry["file"]).items():
        group, _, rest = name.partition(".")
        if group not in groups:
            raise FixtureError(f"{entry['file']}: tensor {name!r} belongs to no group")
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
    )


class _Folder:
    """The files of a fixtures folder, each read once it is inside and hashes as indexed."""

    def __init__(self, directory: str | Path) -> None:
        self._root = Path(directory).resolve()
        self._hashes: dict[str, str] = {}
        for line in self._bytes("index.sha256").decode().splitlines():
            digest, _, path = line.partition("  ")
            self._hashes[path] = digest

    def read(self, path: str) -> bytes:
        data = self._bytes(path)
        if path not in self._hashes:
            raise FixtureError(f"{path}: not in index.sha256")
        digest = hashlib.sha256(data).hexdigest()
        if digest != self._hashes[path]:
            raise FixtureError(f"{path}: sha256 is {digest}, index.sha256 has {self._hashes[path]}")
        return data

    def json(self, path: str) -> Any:
        return json.loads(self.read(path))

    def _bytes(self, path: str) -> bytes:
        file = (self._root / path).resolve()
        if not file.is_relative_to(self._root):
            raise FixtureError(f"{path}: leaves the fixtures folder")
        try:
            return file.read_bytes()
        except OSError as error:
            raise FixtureError(f"{path}: {error.strerror} in {self._root}") from None
