"""Tensors that a few integers define: the long inputs of the fixtures, which no file holds.

Element i, counted row by row, is (m + offset) * 2**exponent, where m, from 0 to 255, is the upper
byte of a hash of i, in unsigned 32-bit arithmetic:

    fmix(x):  x ^= x >> 16;  x *= 0x85ebca6b;  x ^= x >> 13;  x *= 0xc2b2ae35;  x ^= x >> 16
    m = fmix(i + fmix(seed)) >> 24

So every element can be computed alone, in any order and any language, and is exact in every dtype.
fmix is the finaliser of MurmurHash3 (Austin Appleby, public domain).
"""

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from linattn_spec.arrays import Array
from linattn_spec.safetensors_format import DTYPES


@dataclass(frozen=True)
class Generated:
    """A tensor by its definition; `dtype` is a name of the safetensors format."""

    dtype: str
    shape: tuple[int, ...]
    seed: int
    offset: int
    exponent: int

    def array(self) -> Array:
        index = np.arange(math.prod(self.shape), dtype=np.uint32)
        whole = (_fmix(index + _fmix(np.array([self.seed], np.uint32))) >> 24).astype(np.int64)
        exact = np.ldexp((whole + self.offset).astype(np.float64), self.exponent)
        tensor: Array = exact.astype(DTYPES[self.dtype]).reshape(self.shape)
        return tensor


def sha256(x: Array) -> str:
    """The hash of a tensor's bytes, row-major and little-endian."""
    return hashlib.sha256(x.tobytes()).hexdigest()


def _fmix(x: Array) -> Array:
    x = (x ^ (x >> 16)) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * np.uint32(0xC2B2AE35)
    mixed: Array = x ^ (x >> 16)
    return mixed
