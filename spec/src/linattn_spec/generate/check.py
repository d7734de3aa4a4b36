"""Whether a fixtures folder is what the generator writes."""

import json
from pathlib import Path

import numpy as np

from linattn_spec.fixtures import Array
from linattn_spec.folder import INDEX
from linattn_spec.generate import inline
from linattn_spec.generate.write import BY_HAND, Files, index
from linattn_spec.safetensors_format import FixtureError, decode

# exp and dot products differ in the last bits from platform to platform. What was computed with
# them may differ by a tenth of the tightest tolerance; all else is compared byte for byte.
PLATFORM = 1e-13
COMPUTED = ("output.", "gradient.")


def problems(directory: Path, generated: Files) -> list[str]:
    """What is wrong with the folder, one line each; `generated` is what belongs there."""
    present = {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name not in BY_HAND
    }
    found = [f"{path}: is missing" for path in generated.keys() - present.keys()]
    found += [f"{path}: is not generated" for path in present.keys() - generated.keys()]
    hashed = {path: data for path, data in present.items() if path != INDEX}
    if INDEX in present and present[INDEX] != index(hashed):
        found.append(f"{INDEX}: does not have the hashes of the files beside it")
    for path in (generated.keys() & present.keys()) - {INDEX}:
        if generated[path] != present[path]:
            found += _differences(path, generated[path], present[path])
    return sorted(found + _inline_differences(generated, present))


def _inline_differences(generated: Files, present: Files) -> list[str]:
    """A tiny case's text has the numbers of the binary file beside it, to the last bit."""
    found = []
    for entry in json.loads(generated["manifest.json"])["cases"]:
        path = inline.path(entry["id"])
        if inline.is_tiny(entry["id"]) and {path, entry["file"]} <= present.keys():
            try:
                tensors = decode(present[entry["file"]])
            except FixtureError:
                continue  # reported with the binary file
            if present[path] != inline.text(entry, tensors):
                found.append(f"{path}: differs from {entry['file']}")
    return found


def _differences(path: str, generated: bytes, present: bytes) -> list[str]:
    if path.startswith("tiny/"):
        return []  # _inline_differences
    if not path.endswith(".safetensors"):
        return [f"{path}: differs"]
    expected = decode(generated)
    try:
        found = decode(present, path)
    except FixtureError as error:
        return [str(error)]
    if expected.keys() != found.keys():
        return [f"{path}: holds other tensors"]
    return [
        f"{path}: {name} differs"
        for name, x in expected.items()
        if not _same(x, found[name], PLATFORM if name.startswith(COMPUTED) else 0.0)
    ]


def _same(generated: Array, present: Array, allowed: float) -> bool:
    if (generated.dtype, generated.shape) != (present.dtype, present.shape):
        return False
    if generated.tobytes() == present.tobytes():
        return True
    distance = np.max(np.abs(generated - present)) if allowed else np.inf
    return bool(distance <= allowed * np.max(np.abs(generated)))
