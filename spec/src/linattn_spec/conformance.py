"""The conformance runner: any implementation against the golden fixtures.

An implementation is seen through an adapter, a function

    adapter(operator, inputs, arguments, cotangents=None) -> dict of arrays

that calls the operator of that name with the arrays of `inputs` (a tuple-valued argument is a
tuple of arrays) and the keyword arguments `arguments`. It returns the results by name, "output",
"final_state", "final_state.0", ...; given cotangents, also "gradient.<input name>" for every float
input. Whatever the implementation raises comes through.

    for case in load_cases():
        check_case(case, adapter)

`named` gives what an operator returned those names.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from linattn_spec.fixtures import Array, Arrays, Case
from linattn_spec.parts import has_time_axis, run_in_parts
from linattn_spec.safetensors_format import DTYPES
from linattn_spec.tolerances import ACCUMULATION

Adapter = Callable[..., Arrays]


@dataclass(frozen=True)
class Difference:
    """How far one tensor is from its oracle: `error` is max |got - expected| / max |expected|.

    `error` is infinite when the tensor is missing, has another shape or is not finite, and when it
    is not exactly 0 where the oracle is 0 throughout. `where` indexes the worst element.
    """

    tensor: str
    error: float
    tolerance: float
    where: tuple[int, ...] = ()
    expected: str = ""
    got: str = ""

    @property
    def excessive(self) -> bool:
        return not self.error <= self.tolerance

    def __str__(self) -> str:
        return (
            f"{self.tensor}{list(self.where)}: expected {self.expected}, got {self.got}, "
            f"error {self.error:.2e}, tolerance {self.tolerance:.0e}"
        )


def named(operator: str, results: Any) -> dict[str, Any]:
    """What the operator of that name returned, by the names that a fixture has for it."""
    if not isinstance(results, tuple):
        return {"output": results}
    output, state = results
    name = "present_state" if operator == "onnx_linear_attention" else "final_state"
    return flat({"output": output} | ({} if state is None else {name: state}))


def flat(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """A tuple called `name` as "name.0", "name.1", ..."""
    parts: dict[str, Any] = {}
    for name, x in tensors.items():
        if isinstance(x, tuple):
            parts |= {f"{name}.{i}": part for i, part in enumerate(x)}
        else:
            parts[name] = x
    return parts


def result_dtype(case: Case, name: str) -> str:
    """The dtype that the result `name` of `case` is returned in."""
    if name == "present_state":
        return str(case.inputs.get("past_state", case.inputs["query"]).dtype)
    return ACCUMULATION[case.dtype] if name.startswith("final_state") else case.dtype


def run_case(case: Case, adapter: Adapter) -> Arrays:
    """The results of `adapter` for `case`, with gradients if the case has any.

    A case in parts is one call each; of a case with `tokens`, only those are returned.
    """

    def call(inputs: Arrays, cotangents: Arrays | None) -> Arrays:
        returned = adapter(case.operator, _joined(inputs), dict(case.arguments), cotangents)
        if not isinstance(returned, Mapping):
            kind = type(returned).__name__
            raise TypeError(f"an adapter must return a dict of arrays by name, got {kind}")
        return {str(name): _array(x) for name, x in returned.items() if x is not None}

    # Copies: an adapter may do with them what it likes.
    cotangents = {name: x.copy() for name, x in case.cotangents.items()} or None
    if case.parts is None:
        results = call(case.inputs, cotangents)
    else:
        results = run_in_parts(call, case.parts, case.inputs, cotangents)
    return results if case.tokens is None else _at(case.tokens, case.inputs["query"], results)


def differences(case: Case, results: Arrays) -> list[Difference]:
    """One `Difference` for every tensor that `case` expects, in the order outputs, gradients."""
    expected = case.outputs | {f"gradient.{name}": x for name, x in case.gradients.items()}
    return [
        _difference(name, oracle, results.get(name), case.tolerances[name])
        for name, oracle in expected.items()
    ]


def check_case(case: Case, adapter: Adapter) -> None:
    """Raises AssertionError, saying what differs and where, unless `adapter` conforms in `case`."""
    if case.error is not None:
        _check_error(case, adapter, *case.error)
        return
    excess = [d for d in differences(case, run_case(case, adapter)) if d.excessive]
    if excess:
        raise AssertionError("\n  ".join([_title(case), *map(str, excess)]))


def _check_error(case: Case, adapter: Adapter, name: str, pattern: str) -> None:
    try:
        run_case(case, adapter)
    except Exception as error:
        raised = f"{type(error).__name__}: {error}"
        if type(error).__name__ == name and re.search(pattern, str(error)):
            return
        raise AssertionError(
            f"{_title(case)}\n  expected {name} matching {pattern!r}\n  got {raised}"
        ) from error
    raise AssertionError(f"{_title(case)}\n  expected {name} matching {pattern!r}\n  got no error")


def _title(case: Case) -> str:
    return f"{case.id} ({case.operator} {case.arguments}): {case.summary}"


def _array(x: Any) -> Array:
    """`x` as an array, of objects if it is nothing that has a shape."""
    try:
        return np.asarray(x)
    except ValueError:
        return np.array(None)


def _at(tokens: tuple[int, ...], query: Array, results: Arrays) -> Arrays:
    """The results with the time axis of `query` at these tokens, all others as they are."""

    def sampled(name: str, x: Array) -> Array:
        timed = has_time_axis(name.removeprefix("gradient."))
        return np.take(x, tokens, axis=1) if timed and x.shape[:2] == query.shape[:2] else x

    return {name: sampled(name, x) for name, x in results.items()}


def _joined(inputs: Arrays) -> dict[str, Any]:
    """ "name.0", "name.1" as one tuple `name`."""
    joined: dict[str, Any] = {}
    for name in sorted(inputs):
        argument, dot, _ = name.partition(".")
        if dot:
            joined[argument] = (*joined.get(argument, ()), inputs[name])
        else:
            joined[argument] = inputs[name]
    return joined


def _difference(name: str, oracle: Array, result: Array | None, tolerance: float) -> Difference:
    if result is None:
        return Difference(name, np.inf, tolerance, (), f"shape {list(oracle.shape)}", "nothing")
    result = _array(result)
    if result.dtype.kind not in "biuf" and result.dtype != DTYPES["BF16"]:
        return Difference(name, np.inf, tolerance, (), "real numbers", str(result.dtype))
    if result.shape != oracle.shape:
        expected, got = (f"shape {list(x.shape)}" for x in (oracle, result))
        return Difference(name, np.inf, tolerance, (), expected, got)
    if oracle.size == 0:
        return Difference(name, 0.0, tolerance)
    result = result.astype(np.float64)
    distance = np.where(np.isfinite(result), np.abs(result - oracle), np.inf)
    where = tuple(int(i) for i in np.unravel_index(np.argmax(distance), distance.shape))
    worst, size = float(distance[where]), float(np.max(np.abs(oracle)))
    if worst == 0:
        error = 0.0
    else:
        error = worst / size if size > 0 else np.inf
    expected, got = (f"{x[where]:.17g}" for x in (oracle, result))
    return Difference(name, error, tolerance, where, expected, got)
