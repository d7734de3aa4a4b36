"""The tiny cases as text, so that a person can check them without a program.

A file has the case's entry of the manifest, and each tensor as decimals and as bits in hexadecimal.
"""

import json
from typing import Any

import numpy as np

from linattn_spec.arrays import Array, Arrays


def is_tiny(id: str) -> bool:
    return id.startswith("tiny-")


def path(id: str) -> str:
    return f"tiny/{id}.json"


def text(entry: dict[str, Any], tensors: Arrays) -> bytes:
    """The file of a case, from its entry in the manifest and the tensors of its binary file."""
    facts = json.dumps(entry, indent=1, ensure_ascii=False).removesuffix("\n}")
    written = ",\n".join(_tensor(name, tensors[name]) for name in sorted(tensors))
    return f'{facts},\n "tensors": {{\n{written}\n }}\n}}\n'.encode()


def _tensor(name: str, x: Array) -> str:
    words = x.view(f"u{x.dtype.itemsize}").ravel()
    bits = [f"{int(word):0{2 * x.dtype.itemsize}x}" for word in words]
    return (
        f'  {json.dumps(name)}: {{"dtype": "{x.dtype.name}", "shape": {list(x.shape)},\n'
        f'   "values": {json.dumps(_decimals(x))},\n'
        f'   "bits": {json.dumps(bits)}}}'
    )


def _decimals(x: Array) -> list[Any]:
    """Decimals that round to the elements, in order; JSON has no infinity, so that is text."""
    if x.dtype.kind in "bi":
        return list(x.ravel().tolist())
    return [float(str(v)) if np.isfinite(v) else str(v) for v in x.ravel()]
