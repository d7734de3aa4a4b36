"""Calls in parts: a sequence that is handed over in several calls, each with the state of the last.

A case with `parts` [5, 0, 7] is three calls, on the first 5 tokens, on none and on the last 7. The
outputs in a row and the last state are the results; gradients flow back through the states.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from linattn_spec.arrays import Array, Arrays

# A result that is a state, and the argument that takes it.
STATES = {
    "final_state": "initial_state",
    "final_state.0": "initial_state.0",
    "final_state.1": "initial_state.1",
    "present_state": "past_state",
}

# inputs, cotangents or None -> results, as a conformance adapter with the operator given.
Call = Callable[[Arrays, Arrays | None], Arrays]


def has_time_axis(name: str) -> bool:
    """Whether axis 1 of a tensor, by its name without "input." or the like, is the tokens'."""
    return name not in STATES and name not in STATES.values()


def run_in_parts(
    call: Call, parts: tuple[int, ...], inputs: Arrays, cotangents: Arrays | None
) -> Arrays:
    """What `call` gives on the parts of a sequence, put together as of one call on the whole.

    A result that is missing in one call, or has another shape than it must, is so in all: it cannot
    be put together, nor handed on.
    """
    wanted = ["output"] if cotangents is None else list(cotangents)
    state = {name: x for name, x in inputs.items() if not has_time_axis(name)}
    calls, outputs = [], []
    for part in _slices(parts):
        given = _tokens(inputs, part) | state
        results = call(given, None)
        if any(name not in results for name in wanted):
            return results
        outputs.append(results["output"])
        if outputs[-1].shape != (*given["query"].shape[:2], *outputs[0].shape[2:]):
            return results
        calls.append((part, given))
        state = {STATES[name]: x for name, x in results.items() if name in STATES}
    joined = results | {"output": np.concatenate(outputs, axis=1)}
    return joined if cotangents is None else joined | _gradients(call, calls, inputs, cotangents)


def _gradients(
    call: Call, calls: list[tuple[slice, Arrays]], inputs: Arrays, cotangents: Arrays
) -> Arrays:
    """From the last part to the first: the gradient of a state is the cotangent of the last."""
    state = {name: x for name, x in cotangents.items() if name in STATES}
    pieces: list[Arrays] = []
    for part, given in reversed(calls):
        pieces.append(call(given, {"output": cotangents["output"][:, part]} | state))
        of_states = {name: pieces[-1].get(f"gradient.{STATES[name]}") for name in state}
        if part.start > 0 and any(x is None for x in of_states.values()):
            return {}
        state = {name: x for name, x in of_states.items() if x is not None}
    gradients = {}
    for name in inputs:
        found = [piece.get(f"gradient.{name}") for piece in reversed(pieces)]
        if not has_time_axis(name):
            joined = found[0]
        else:
            joined = _in_a_row(found, [given[name].shape for _, given in calls])
        if joined is not None:
            gradients[f"gradient.{name}"] = joined
    return gradients


def _in_a_row(found: list[Array | None], shapes: list[tuple[int, ...]]) -> Array | None:
    """The pieces in a row; the first that is missing or has another shape, if one does."""
    pieces = []
    for x, shape in zip(found, shapes, strict=True):
        if x is None or x.shape != shape:
            return x
        pieces.append(x)
    return np.concatenate(pieces, axis=1)


def _slices(parts: tuple[int, ...]) -> Iterator[slice]:
    ends = np.cumsum((0, *parts)).tolist()
    return (slice(first, last) for first, last in pairwise(ends))


def _tokens(tensors: dict[str, Any], part: slice) -> dict[str, Array]:
    return {name: x[:, part] for name, x in tensors.items() if has_time_axis(name)}
