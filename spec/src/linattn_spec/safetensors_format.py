"""The safetensors format, read strictly and written reproducibly, in NumPy.

A file is the length of the header (8 bytes, little-endian), the header (JSON: tensor name to dtype,
shape and byte range), and the bytes of the tensors, row-major and little-endian. What is
written here has its tensors in the order of their names, no gaps and no metadata block, so equal
tensors give equal bytes. What is read is refused unless every byte of it is accounted for.
"""

import json
import math
from typing import Any

import ml_dtypes
import numpy as np

from linattn_spec.arrays import Arrays

DTYPES: dict[str, np.dtype[Any]] = {
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "BOOL": np.dtype(np.bool_),
    "C64": np.dtype(np.complex64),
    "F16": np.dtype(np.float16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_ALIGNMENT = 8


class FixtureError(ValueError):
    """A fixture file that is damaged, incomplete, or not what the index says it is."""


def encode(tensors: Arrays) -> bytes:
    """The bytes of a file that holds `tensors`, a dict from name to array."""
    header: dict[str, Any] = {}
    chunks, offset = [], 0
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name]).reshape(np.shape(tensors[name]))
        end = offset + array.nbytes
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, end],
        }
        chunks.append(array.tobytes())
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text + b"".join(chunks)


def decode(data: bytes, source: str = "safetensors data") -> Arrays:
    """The tensors in `data`, a dict from name to array.

    Raises:
        FixtureError: naming `source` and what is wrong with it.
    """
    try:
        return _decode(data)
    except FixtureError as error:
        raise FixtureError(f"{source}: {error}") from None


def _decode(data: bytes) -> Arrays:
    if len(data) < 8:
        raise FixtureError(f"truncated: {len(data)} bytes, but a file has at least 8")
    start = 8 + int.from_bytes(data[:8], "little")
    if start > len(data):
        raise FixtureError(f"truncated: the header ends at byte {start} of {len(data)}")
    try:
        header = json.loads(data[8:start].decode(), object_pairs_hook=_without_duplicates)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FixtureError(f"the header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise FixtureError("the header is not a JSON object")
    tensors: Arrays = {}
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: _first_byte(*item)):
        dtype, shape, offsets = _entry(name, entry)
        if offsets[0] != end:
            raise FixtureError(f"tensor {name!r} starts at byte {offsets[0]}, expected {end}")
        end = offsets[0] + math.prod(shape) * dtype.itemsize
        if offsets[1] != end:
            raise FixtureError(f"tensor {name!r} ends at byte {offsets[1]}, but its shape at {end}")
        if start + end > len(data):
            raise FixtureError(f"truncated: tensor {name!r} ends at {start + end} of {len(data)}")
        raw = data[start + offsets[0] : start + end]
        if dtype == np.bool_ and raw.strip(b"\0\1"):
            raise FixtureError(f"tensor {name!r} is BOOL and holds bytes other than 0 and 1")
        tensors[name] = np.frombuffer(raw, dtype).reshape(shape)
    if start + end != len(data):
        raise FixtureError(f"{len(data) - start - end} bytes belong to no tensor")
    return tensors


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise FixtureError("the header names a key twice")
    return dict(pairs)


def _first_byte(name: str, entry: Any) -> list[int]:
    return _entry(name, entry)[2]


def _entry(name: str, entry: Any) -> tuple[np.dtype[Any], list[int], list[int]]:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise FixtureError(f"tensor {name!r} needs exactly dtype, shape and data_offsets")
    if not isinstance(entry["dtype"], str) or entry["dtype"] not in DTYPES:
        raise FixtureError(f"tensor {name!r} has the unknown dtype {entry['dtype']!r}")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not _naturals(shape) or not _naturals(offsets) or len(offsets) != 2:
        raise FixtureError(f"tensor {name!r} has a shape or byte range that is no list of naturals")
    return DTYPES[entry["dtype"]], shape, offsets


def _naturals(values: Any) -> bool:
    return isinstance(values, list) and all(type(n) is int and n >= 0 for n in values)
