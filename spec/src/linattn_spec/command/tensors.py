"""Tensors as text: their range and their values, or the first; or one element per line."""

import sys
from collections.abc import Iterator

import ml_dtypes
import numpy as np

from linattn_spec.command.table import WIDTH
from linattn_spec.fixtures import Array

_SMALL = 60
_FIRST = 8


def described(name: str, x: Array, notes: str = "") -> list[str]:
    """The name, the dtype, the shape and the range; under it the values, or the first of them."""
    head = f"{name}  {x.dtype} {list(x.shape)}{_range(x)}{notes}"
    if x.size == 0:
        return [head]
    values, digits, end = _printable(x), 8, "]"
    if x.size > _SMALL:
        values, digits, end = values.reshape(-1)[:_FIRST], 4, " ...]"
    text = np.array2string(
        values, precision=digits, max_line_width=WIDTH - 4, threshold=sys.maxsize
    )
    return [head, *(f"  {line}".rstrip() for line in (text[:-1] + end).splitlines())]


def elements(x: Array, bits: bool) -> Iterator[str]:
    """One line per element: index, shortest decimal of its own in the dtype, bits in hex."""
    unsigned = np.ascontiguousarray(x).reshape(-1).view(f"u{x.dtype.itemsize}")
    values = _printable(x)
    for position, index in enumerate(np.ndindex(x.shape)):
        value = values[index]
        hexadecimal = f"  0x{unsigned[position]:0{2 * x.dtype.itemsize}x}" if bits else ""
        yield f"{list(index)}  {value}{hexadecimal}"


def _range(x: Array) -> str:
    if x.size == 0:
        return ", empty"
    if x.dtype == np.bool_:
        return f", {np.count_nonzero(x)} of {x.size} true"
    if np.iscomplexobj(x):
        return ""
    finite = x[np.isfinite(x)].astype(np.float64)
    parts = [f"from {finite.min():.6g} to {finite.max():.6g}"] if finite.size else []
    for what, number in (
        ("zero", x.size - np.count_nonzero(x)),
        ("NaN", np.count_nonzero(np.isnan(x))),
        ("infinite", np.count_nonzero(np.isinf(x))),
    ):
        parts += [f"{number} {what}"] if number else []
    return "".join(f", {part}" for part in parts)


def _printable(x: Array) -> Array:
    """Of the same values, in a dtype whose decimals NumPy writes."""
    return x.astype(np.float32) if x.dtype == ml_dtypes.bfloat16 else x
