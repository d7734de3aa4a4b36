"""Which elements of a tensor are wrong: how many, the worst, the first ones, and where they lie."""

from dataclasses import dataclass
from itertools import groupby

import numpy as np

from linattn_spec.conformance import Difference
from linattn_spec.fixtures import Array, Case
from linattn_spec.parts import has_time_axis

_FIRST = 3
_RUNS = 8


@dataclass(frozen=True)
class Element:
    index: tuple[int, ...]
    expected: float
    got: float


@dataclass(frozen=True)
class WrongTensor:
    """A tensor beyond its tolerance; without elements if it is missing or cannot be compared.

    `lies` says, for each axis on which only some indices have wrong elements, which those are.
    """

    difference: Difference
    count: int = 0
    size: int = 0
    worst: Element | None = None
    first: tuple[Element, ...] = ()
    lies: tuple[str, ...] = ()


def wrong_tensor(case: Case, difference: Difference, result: Array | None) -> WrongTensor:
    """The elements of `result` that exceed the tolerance as `difference` says that some do."""
    name = difference.tensor.removeprefix("gradient.")
    oracle = (case.outputs if name == difference.tensor else case.gradients)[name]
    if result is None or not difference.where:
        return WrongTensor(difference)
    got = np.asarray(result).astype(np.float64)
    distance = np.where(np.isfinite(got), np.abs(got - oracle), np.inf)
    # Where the oracle is 0 throughout, this is 0 / 0 or infinite.
    wrong = ~((distance == 0) | (distance / np.max(np.abs(oracle)) <= difference.tolerance))
    indices = np.argwhere(wrong)
    tokens = case.tokens if has_time_axis(name) else None

    def element(where: Array) -> Element:
        at = tuple(int(i) for i in where)
        return Element(_named(at, tokens), float(oracle[at]), float(got[at]))

    return WrongTensor(
        difference,
        count=len(indices),
        size=oracle.size,
        worst=element(np.array(difference.where, int)),
        first=tuple(element(where) for where in indices[:_FIRST]),
        lies=_lies(indices, oracle.shape, tokens),
    )


def _named(index: tuple[int, ...], tokens: tuple[int, ...] | None) -> tuple[int, ...]:
    """The index with the token's own number where a tensor holds only some tokens."""
    return index if tokens is None else (index[0], tokens[index[1]], *index[2:])


def _lies(
    indices: Array, shape: tuple[int, ...], tokens: tuple[int, ...] | None
) -> tuple[str, ...]:
    lines = []
    for axis, size in enumerate(shape):
        found = sorted({int(i) for i in indices[:, axis]})
        if len(found) < size:
            numbers = [tokens[i] for i in found] if tokens and axis == 1 else found
            lines.append(f"axis {axis} only at {ranges(numbers)}")
    return tuple(lines)


def ranges(numbers: list[int]) -> str:
    """Increasing numbers in short: "0, 4-7"."""
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    ]
    named = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return ", ".join(named if len(named) <= _RUNS else [*named[:_RUNS], "..."])
