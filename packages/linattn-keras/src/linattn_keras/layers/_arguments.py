"""The checks of a layer's arguments, worded as Keras words them."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from linattn_core.chunks import EXECUTION_MODES
from linattn_core.dtypes import is_floating, is_integer
from linattn_keras.ops._tensors import describe
from linattn_keras.portable._describe import check_rank

FEATURE_MAPS = ("elu_plus_one", "relu")


def check_constructor(**arguments: Any) -> None:
    """Raises ValueError, naming the argument, unless a layer can be made of `arguments`."""
    for name, given in arguments.items():
        expected, accepted = _CONSTRUCTOR[name]
        if not accepted(given):
            raise ValueError(_invalid(name, expected, f"{name}={given!r}"))


def check_inputs_shape(shape: tuple[int | None, ...], input_dim: int | None = None) -> None:
    """Raises ValueError unless inputs of a layer built for `input_dim` may have this shape."""
    if len(shape) != 3 or shape[-1] is None:
        expected = (
            "a tensor of shape (batch_size, sequence_length, input_dim) with a known input_dim"
        )
        raise ValueError(_invalid("inputs", expected, f"inputs.shape={_spell(shape)}"))
    if input_dim not in (None, shape[-1]):
        expected = f"a tensor whose last axis has the size the layer was built with, {input_dim}"
        raise ValueError(_invalid("inputs", expected, f"inputs.shape={_spell(shape)}"))


def check_mapped(keys: Any, mapped: Any) -> int:
    """The last size of what a feature map made of `keys`.

    Raises:
        ValueError: it did not keep all other axes, or is not of floating-point numbers.
    """
    *lead, _ = keys.shape
    expected = f"a map of tensors of shape {_spell((*lead, 'key_dim'))} to {_spell((*lead, 'any'))}"
    described = describe(mapped)
    if described is None or [*described[0][:-1]] != lead or not is_floating(described[1]):
        raise ValueError(_invalid("feature_map", expected, _what("feature_map(keys)", mapped)))
    return described[0][-1]


def check_causal(causal: bool) -> None:
    """Raises ValueError for a layer without a state."""
    if not causal:
        expected = "True for a layer that is asked for its state"
        raise ValueError(_invalid("causal", expected, "causal=False"))


def check_batch_size(batch_size: Any) -> None:
    """Raises ValueError unless a state can be made for so many sequences."""
    known = isinstance(batch_size, (int, np.integer)) and not isinstance(batch_size, bool)
    described = describe(batch_size)
    # TensorFlow has the size of a batch as a tensor, where it is unknown while tracing.
    traced = (
        described is not None
        and described[0] == ()
        and is_integer(described[1])
        and not keras.backend.is_keras_tensor(batch_size)
    )
    if not traced and not (known and batch_size >= 0):
        expected = "an integer >= 0 or None"
        raise ValueError(_invalid("batch_size", expected, _what("batch_size", batch_size)))


def check_call(
    inputs: Any,
    mask: Any,
    initial_state: Any,
    return_state: Any,
    *,
    input_dim: int | None,
    causal: bool,
    state_shapes: Callable[[Any], tuple[tuple[Any, ...], ...]],
) -> None:
    """Raises ValueError or TypeError, naming the argument, unless a layer takes these tensors."""
    for name, x in (("inputs", inputs), ("mask", mask), ("initial_state", initial_state)):
        for tensor in keras.tree.flatten(x):
            check_rank(name, tensor)
    shape = _floating("inputs", inputs)
    check_inputs_shape(shape, input_dim)
    if mask is not None:
        _check_mask(mask, shape[:2])
    if not isinstance(return_state, bool):
        expected = "True or False"
        raise ValueError(_invalid("return_state", expected, f"return_state={return_state!r}"))
    if not causal and return_state:
        expected = "False for a layer with causal=False, which has no state"
        raise ValueError(_invalid("return_state", expected, "return_state=True"))
    if not causal and initial_state is not None:
        expected = "None for a layer with causal=False, which has no state"
        raise ValueError(_invalid("initial_state", expected, _what("initial_state", initial_state)))
    if initial_state is not None:
        _check_state(initial_state, state_shapes(shape[0]))


def _check_mask(mask: Any, sizes: tuple[int | None, ...]) -> None:
    described = describe(mask)
    expected = "a tensor of rank 2 that is broadcastable to (batch_size, sequence_length)"
    if described is None:
        raise TypeError(_invalid("mask", expected, _what("mask", mask)))
    shape, dtype = described
    if not (dtype == "bool" or is_integer(dtype) or is_floating(dtype)):
        raise TypeError(_invalid("mask", "a dtype of booleans or numbers", f"mask.dtype={dtype}"))
    fits = len(shape) == 2 and all(
        given in (1, None, size) or size is None for given, size in zip(shape, sizes, strict=True)
    )
    if not fits:
        expected = f"{expected}, here {_spell(sizes)}"
        raise ValueError(_invalid("mask", expected, f"mask.shape={_spell(shape)}"))


def _check_state(state: Any, shapes: tuple[tuple[Any, ...], ...]) -> None:
    names = ("key_value_state", "key_state")[: len(shapes)]
    expected = f"a tuple ({', '.join(names)}{',' if len(names) == 1 else ''}) of shapes " + (
        " and ".join(map(_spell, shapes))
    )
    described = None
    if isinstance(state, (tuple, list)) and len(state) == len(shapes):
        described = [describe(x) for x in state]
    if described is None or None in described:
        raise ValueError(_invalid("initial_state", expected, _what("initial_state", state)))
    for x, (given, _), shape in zip(state, described, shapes, strict=True):
        _floating("initial_state", x)
        if len(given) != len(shape) or any(
            a is not None and b is not None and a != b for a, b in zip(given, shape, strict=True)
        ):
            raise ValueError(_invalid("initial_state", expected, _what("initial_state", state)))


def _floating(name: str, x: Any) -> tuple[int | None, ...]:
    """The shape of a floating-point tensor."""
    described = describe(x)
    if described is None:
        raise TypeError(_invalid(name, "a tensor", _what(name, x)))
    shape, dtype = described
    if not is_floating(dtype):
        raise TypeError(_invalid(name, "a floating-point dtype", f"{name}.dtype={dtype}"))
    return shape


def _invalid(name: str, expected: str, received: str) -> str:
    return (
        f"Received an invalid value for argument `{name}`, expected {expected}. "
        f"Received: {received}"
    )


def _what(name: str, x: Any) -> str:
    """What was given, without the numbers in it."""
    described = describe(x)
    if described is not None:
        return f"{name}.shape={_spell(described[0])}"
    if isinstance(x, (tuple, list)):
        parts = [_spell(d[0]) if (d := describe(part)) else type(part).__name__ for part in x]
        return f"{name}, a {type(x).__name__} of {len(x)}: {', '.join(parts)}"
    return f"{name}={x!r}"


def _spell(shape: tuple[Any, ...]) -> str:
    return str(tuple(shape))


def _is_positive_integer(x: Any) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and x > 0


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def _is_flag(x: Any) -> bool:
    return isinstance(x, bool)


# Argument -> what it must be, in words and as a function.
_POSITIVE = ("a positive integer", _is_positive_integer)
_FLAG = ("True or False", _is_flag)
_CONSTRUCTOR: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "num_heads": _POSITIVE,
    "key_dim": _POSITIVE,
    "value_dim": (
        "a positive integer or None",
        lambda x: x is None or _is_positive_integer(x),
    ),
    "output_shape": (
        "a positive integer, a tuple of one, or None",
        lambda x: (
            x is None
            or _is_positive_integer(x)
            or (isinstance(x, (tuple, list)) and len(x) == 1 and _is_positive_integer(x[0]))
        ),
    ),
    "feature_map": (
        f"one of {', '.join(map(repr, FEATURE_MAPS))} or a callable",
        lambda x: x in FEATURE_MAPS if isinstance(x, str) else callable(x),
    ),
    "use_normalizer": _FLAG,
    "normalization_epsilon": (
        "a finite number >= 0",
        lambda x: _is_number(x) and 0 <= x < math.inf,
    ),
    "causal": _FLAG,
    "dropout": ("a number in [0, 1]", lambda x: _is_number(x) and 0 <= x <= 1),
    "use_bias": _FLAG,
    "execution_mode": (
        f"one of {', '.join(map(repr, EXECUTION_MODES))}",
        lambda x: isinstance(x, str) and x in EXECUTION_MODES,
    ),
    "seed": (
        "an integer or None",
        lambda x: x is None or (isinstance(x, int) and not isinstance(x, bool)),
    ),
    "native": ("True, False or None", lambda x: x is None or _is_flag(x)),
}
