"""The safetensors format, read strictly and written reproducibly, in NumPy.

A file is the length of the header (8 bytes, little-endian), the header (JSON: tensor name to dtype,
shape and byte range), and the bytes of the tensors, row-major and little-endian. What is
written here has its tensors in the order of their names, no gaps and no metadata block, so equal
tensors give equal bytes. What is read is refused unless every byte of it is accounted for.
"""

import json
import math
import re
from typing import Any

import ml_dtypes
import numpy as np

from linattn_spec.arrays import Arrays
from linattn_spec.strict_json import parse

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
NAMES = {dtype: name for name, dtype in DTYPES.items()}
# No fixture needs more; a reader that has a limit needs no more memory than a few times this.
LARGEST = 16 * 2**20
# The most that every NumPy since 1.26 has.
MOST_AXES = 32
# Not "__metadata__": for other readers that is no tensor.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,199}")
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
            "dtype": NAMES[array.dtype],
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
    tensors: Arrays = {}
    end = 0
    for offsets, name, dtype, shape in _entries(data[8:start]):
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


_Entry = tuple[list[int], str, np.dtype[Any], list[int]]


def _entries(text: bytes) -> list[_Entry]:
    """Byte range, name, dtype and shape of every tensor, in the order of the bytes."""
    if not (text.startswith(b"{") and text.rstrip(b" ").endswith(b"}")):
        raise FixtureError("the header is not a JSON object with nothing but spaces behind it")
    try:
        header = parse(text)
    except ValueError as error:
        raise FixtureError(f"the header is not strict JSON: {error}") from None
    return sorted((_entry(name, entry) for name, entry in header.items()), key=lambda e: e[0])


def _entry(name: str, entry: Any) -> _Entry:
    if not _NAME.fullmatch(name):
        raise FixtureError(f"{name!r:.80} is no name of a tensor")
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise FixtureError(f"tensor {name!r} needs exactly dtype, shape and data_offsets")
    if not isinstance(entry["dtype"], str) or entry["dtype"] not in DTYPES:
        raise FixtureError(f"tensor {name!r} has the unknown dtype {entry['dtype']!r:.80}")
    dtype, shape, offsets = DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
    if not is_shape(shape, dtype):
        raise FixtureError(
            f"tensor {name!r} has the shape {shape!r:.80}, which is none or too large"
        )
    if not is_naturals(offsets) or len(offsets) != 2:
        raise FixtureError(f"tensor {name!r} has the byte range {offsets!r:.80}")
    return offsets, name, dtype, shape


def is_shape(values: Any, dtype: np.dtype[Any]) -> bool:
    """Whether these are the sizes of an array that NumPy can hold, and this project may need."""
    if not is_naturals(values) or len(values) > MOST_AXES:
        return False
    # NumPy refuses [0, 2**62] too, as its strides would overflow.
    size: int = math.prod(max(n, 1) for n in values) * dtype.itemsize
    return size <= LARGEST


def is_naturals(values: Any) -> bool:
    """Whether this is a list of integers from 0 up, none of them a bool."""
    return isinstance(values, list) and all(type(n) is int and n >= 0 for n in values)
