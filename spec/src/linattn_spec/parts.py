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

    A result that is missing in one call is missing in all: nothing can be handed on without it.
    """
    wanted = ["output"] if cotangents is None else list(cotangents)
    state = {name: x for name, x in inputs.items() if not has_time_axis(name)}
    calls, outputs = [], []
    for part in _slices(parts):
        given = _tokens(inputs, part) | state
        results = call(given, None)
        if any(results.get(name) is None for name in wanted):
            return results
        calls.append((part, given))
        outputs.append(np.asarray(results["output"]))
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
    pieces.reverse()
    gradients = {}
    for name in (f"gradient.{name}" for name in inputs):
        found = [np.asarray(piece[name]) for piece in pieces if piece.get(name) is not None]
        if has_time_axis(name.removeprefix("gradient.")):
            if len(found) == len(pieces):
                gradients[name] = np.concatenate(found, axis=1)
        elif name in pieces[0]:
            gradients[name] = pieces[0][name]
    return gradients


def _slices(parts: tuple[int, ...]) -> Iterator[slice]:
    ends = np.cumsum((0, *parts)).tolist()
    return (slice(first, last) for first, last in pairwise(ends))


def _tokens(tensors: dict[str, Any], part: slice) -> dict[str, Array]:
    return {name: x[:, part] for name, x in tensors.items() if has_time_axis(name)}
