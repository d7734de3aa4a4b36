"""Random inputs. Only +, *, / and sqrt shape them, so they are the same bits on every platform."""

import zlib

import numpy as np

from linattn_spec.fixtures import Array

Shape = tuple[int, ...]
UNIFORM_BITS = 53


class Draw:
    """The random arrays of one scenario, from its id."""

    def __init__(self, seed: str) -> None:
        self._generator = generator(seed)

    def uniform(self, low: float, high: float, shape: Shape) -> Array:
        whole = self._generator.randint(0, 2**UNIFORM_BITS, size=shape, dtype=np.int64)
        return low + (high - low) * (whole / 2.0**UNIFORM_BITS)

    def integers(self, low: int, high: int, shape: Shape) -> Array:
        """From low up to and without high."""
        return self._generator.randint(low, high, size=shape, dtype=np.int64)

    def normalized(self, shape: Shape, low: float = -1.0) -> Array:
        """Vectors of length 0.98: with beta <= 2 the delta rules stay in beta * |k|^2 <= 2 in every
        dtype, bfloat16's rounding included."""
        x = self.uniform(low, 1.0, shape)
        length = np.sqrt(np.sum(x * x, axis=-1, keepdims=True))
        normal: Array = 0.98 * x / length
        return normal


def generator(seed: str) -> np.random.RandomState:
    """A generator whose stream depends on the text `seed` alone, on every platform and version."""
    return np.random.RandomState(zlib.crc32(seed.encode()))
