"""A valid call to spoil, and the case that says with which words it is refused.

The text names the argument, says what it must be, what was given, and which other argument it
disagrees with. It is the same, to the letter, whatever the framework.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from linattn_spec.fixtures import Array, Arrays, Case
from linattn_spec.generate.draw import Shape, generator

# What a regular expression does not take as it is, in any dialect.
SPECIAL = r"\.^$*+?{}[]|()"

# The axes of every argument, and the sizes of the valid call that each case spoils.
SIZES = dict(B=2, T=7, Hq=6, Hk=3, Hv=3, Dk=4, Dv=5)
AXES = {
    "query": "B T Hq Dk",
    "key": "B T Hk Dk",
    "value": "B T Hv Dv",
    "log_decay": "B T Hv",
    "beta": "B T Hv",
    "initial_state": "B Hv Dk Dv",
    "mask": "B T",
    "segment_ids": "B T",
}
SPELLED = {name: f"[{', '.join(axes.split())}]" for name, axes in AXES.items()}
SPELLED["log_decay"] += " or [B, T, Hv, Dk]"
SPELLED["beta"] += " or [B, T, 1]"
BASE = ("query", "key", "value")
GATES = ("log_decay", "beta")


def shape_of(name: str, **other: int) -> Shape:
    """The shape of an argument of the valid call, some axes having `other` sizes."""
    return tuple((SIZES | other)[axis] for axis in AXES[name].split())


def array(shape: Shape, dtype: npt.DTypeLike = np.float32) -> Array:
    """Small numbers of any dtype; what they are is never looked at."""
    return (generator("invalid").randint(-8, 9, size=shape, dtype=np.int64) / 8).astype(dtype)


def valid(*names: str) -> Arrays:
    """The arguments `names` of a call that is not refused."""
    dtypes = {"mask": np.bool_, "segment_ids": np.int32}
    return {name: array(shape_of(name), dtypes.get(name, np.float32)) for name in names}


def literal(text: str) -> str:
    """A regular expression, in every dialect, for a message that is `text` or `text: details`."""
    return "^" + "".join(f"\\{c}" if c in SPECIAL else c for c in text) + "(:|$)"


def refused(
    id: str,
    operator: str,
    inputs: Arrays,
    arguments: dict[str, Any],
    error: str,
    text: str,
    *,
    dtype: str = "float32",
) -> Case:
    """The case that this call raises `error` with this text."""
    return Case(
        id=f"invalid-{operator.replace('_', '-')}-{id}",
        summary=f"Refused: {text}",
        flags=("bad-input",),
        clause="errors",
        operator=operator,
        dtype=dtype,
        arguments=arguments,
        inputs=inputs,
        error=(error, literal(text)),
    )
