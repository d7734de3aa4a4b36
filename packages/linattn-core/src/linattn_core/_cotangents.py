"""The checks of cotangents, in the words of the other checks. Only NumPy needs them."""

from typing import Any

from linattn_core._arguments import (
    Axes,
    Describe,
    Shape,
    bind,
    check_floating,
    check_kernel_state,
    what,
)

OUTPUT = ("B", "T", "max(Hq, Hv)", "Dv")
STEP_OUTPUT = ("B", "max(Hq, Hv)", "Dv")
PACKED_OUTPUT = ("B", "T", "q_num_heads * Dv")
STATE = ("B", "Hv", "Dk", "Dv")
PACKED_STATE = ("B", "kv_num_heads", "Dk", "Dv")


def check_cotangent(
    describe: Describe, name: str, cotangent: Any, letters: tuple[str, ...], shape: Shape
) -> None:
    """Raises ValueError or TypeError unless None or a floating-point array of the result's shape.

    Args:
        name: of the cotangent, "<result>_cotangent".
        letters, shape: the axes of the result.
    """
    if cotangent is not None:
        given = check_floating(describe, name, cotangent)
        bind(name, given, letters, _axes(name, letters, shape))


def check_kernel_cotangent(
    describe: Describe, cotangent: Any, causal: bool, use_normalizer: bool, shape: Shape
) -> None:
    """Raises ValueError or TypeError unless None or structured like the final state.

    Args:
        shape: of the key_value_state.
    """
    name = "final_state_cotangent"
    if cotangent is None:
        return
    if not causal:
        raise ValueError(
            f"{name} must be None when causal is False, got {what(describe, cotangent)}"
        )
    check_kernel_state(describe, name, cotangent, _axes(name, STATE, shape), use_normalizer)


def _axes(name: str, letters: tuple[str, ...], shape: Shape) -> Axes:
    result = name.removesuffix("_cotangent")
    sizes = zip(letters, shape, strict=True)
    return {letter: (size, result, shape) for letter, size in sizes if size is not None}
