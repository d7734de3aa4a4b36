"""The checks of the arguments that are no tensors."""

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np


def check_choice(name: str, given: Any, choices: Sequence[str], or_else: str = "") -> None:
    if not isinstance(given, str) or given not in choices:
        names = ", ".join(f"'{c}'" for c in choices)
        raise ValueError(f"{name} must be one of {names}{or_else}, got {given!r}")


def check_flag(name: str, given: Any) -> None:
    if not isinstance(given, bool):
        raise TypeError(f"{name} must be True or False, got {given!r}")


def check_chunk_size(chunk_size: Any) -> None:
    if not is_integer_argument(chunk_size):
        raise TypeError(f"chunk_size must be an integer >= 1, got {chunk_size!r}")
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be an integer >= 1, got {chunk_size!r}")


def check_epsilon(epsilon: Any) -> None:
    if not is_number(epsilon):
        raise TypeError(f"epsilon must be a number >= 0, got {epsilon!r}")
    known = isinstance(epsilon, (int, float, np.number, np.ndarray))
    if known and not epsilon >= 0:
        raise ValueError(f"epsilon must be a number >= 0, got {epsilon!r}")


def is_integer_argument(x: Any) -> bool:
    """A Python or NumPy integer; a bool is not one."""
    if isinstance(x, int):
        return not isinstance(x, bool)
    # A floating-point array has __index__ too: it raises.
    try:
        index(x)
    except TypeError:
        return False
    return getattr(x, "shape", ()) == ()


def is_number(x: Any) -> bool:
    """A real Python number, or a real scalar of NumPy or of the framework, traced or not."""
    if isinstance(x, (int, float)):
        return not isinstance(x, bool)
    dtype = str(getattr(x, "dtype", ""))
    return getattr(x, "shape", None) == () and ("float" in dtype or "int" in dtype)


def check_scale(scale: Any) -> None:
    if scale is not None and not is_number(scale):
        raise TypeError(f"scale must be a number or None, got {scale!r}")


def heads_error(q_num_heads: Any, kv_num_heads: Any) -> ValueError:
    return ValueError(
        "q_num_heads must be a positive multiple of kv_num_heads, "
        f"got q_num_heads = {q_num_heads!r} and kv_num_heads = {kv_num_heads!r}"
    )


def spell_choices(choices: Sequence[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}"


def check_known_scale(scale: Any) -> None:
    """For an operator to which 0.0 means the default: a traced number will not do."""
    if not is_number(scale) or not isinstance(scale, (int, float, np.generic, np.ndarray)):
        raise TypeError(f"scale must be a number, got {scale!r}")
