"""The adapter under test: found by its name, called as it can be, held to its contract."""

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from linattn_spec.command import UsageError
from linattn_spec.conformance import Adapter
from linattn_spec.fixtures import Arrays

_SIGNATURE = "adapter(operator, inputs, arguments, cotangents=None)"
CONTRACT = f"""\
An adapter is one function, {_SIGNATURE}:
  operator    the name of what to call, as "linear_attention"
  inputs      NumPy arrays by argument name, in the dtype under test; a state may be a tuple of them
  arguments   the other keyword arguments, plain values
  cotangents  None, or float64 arrays by the name of the result
It returns a dict of arrays: "output" and "final_state" ("present_state" for ONNX, "final_state.0"
and "final_state.1" for a state that is a tuple); and, given cotangents, for each float input the
gradient of the sum of cotangent * result, as "gradient.query" or "gradient.initial_state.0".
Without gradients it needs no parameter cotangents, and is checked with --forward. What it lacks
raises NotImplementedError. What a call raises comes through: the calls of some cases must fail."""
_LINES = 8
_NOT_OF_THE_ADAPTER = (__file__, importlib.__file__)


def load(target: str) -> Callable[..., Any]:
    """The function that `target`, "module.function" or "module:function", names.

    Raises:
        UsageError: there is no such module or function, or importing it fails.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module, _, path = target.partition(":") if ":" in target else target.rpartition(".")
    if not module or not path:
        raise UsageError(f"{target!r} is not module.function or module:function")
    try:
        imported = importlib.import_module(module)
    except KeyboardInterrupt:
        raise
    # Even of SystemExit: a module that exits must not pass for one that was checked.
    except BaseException as error:
        raise UsageError(f"cannot import {module}: {last_lines(error)}") from None
    try:
        function = reduce(getattr, path.split("."), imported)
    except AttributeError:
        raise UsageError(f"module {module} has no {path}") from None
    if not callable(function):
        raise UsageError(f"{target} is no function but {type(function).__name__}")
    return function


def held_to_contract(function: Callable[..., Any], name: str, forward: bool) -> Adapter:
    """`function` as an adapter; for `forward`, it may lack the parameter cotangents.

    Raises:
        UsageError: at once if it cannot be called so, and in a call that returns no dict.
    """
    takes_cotangents = _accepts(function, 4)
    if not takes_cotangents and not (forward and _accepts(function, 3)):
        text = f"{name}{inspect.signature(function)} cannot be called as {_SIGNATURE}"
        hint = "; --forward needs no cotangents" if _accepts(function, 3) else ""
        raise UsageError(text + hint)

    def adapter(
        operator: str, inputs: Arrays, arguments: dict[str, Any], cotangents: Arrays | None
    ) -> Arrays:
        call = (operator, inputs, arguments, cotangents)
        results = function(*call) if takes_cotangents else function(*call[:3])
        if not isinstance(results, Mapping):
            raise UsageError(
                f"{name} must return a dict of arrays by the name of the result, "
                f'as {{"output": ..., "final_state": ...}}; it returned {_kind(results)}'
            )
        return dict(results)

    return adapter


def last_lines(error: BaseException) -> str:
    """What was raised and, under it, the last two calls that led there."""
    raised = "".join(traceback.format_exception_only(error)).rstrip().splitlines()
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename not in _NOT_OF_THE_ADAPTER and not frame.filename.startswith("<frozen ")
    ]
    calls = "".join(traceback.format_list(frames[-2:])).splitlines()
    return "\n".join([*raised[:_LINES], *calls])


def _accepts(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # It has no signature to read, as some that are written in C.
        return True
    return True


def _kind(x: Any) -> str:
    return "None" if x is None else f"a {type(x).__name__}"
