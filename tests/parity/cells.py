"""The worst error of each package, against the definition and the others, per rule and dtype."""

from collections.abc import Iterable
from dataclasses import dataclass

from parity.compare import DEFINITION, Measurement
from parity.plan import DTYPES, RULES

# What a package is compared with, DEFINITION or OTHERS, and the package.
Column = tuple[str, str]
OTHERS = "others"


@dataclass(frozen=True)
class Cell:
    """The measurement with the largest error, and the one that is closest to its tolerance."""

    worst: Measurement
    closest: Measurement
    tensors: int


Cells = dict[tuple[str, str, Column], Cell]


def cells(measurements: Iterable[Measurement]) -> Cells:
    groups: dict[tuple[str, str, Column], list[Measurement]] = {}
    for m in measurements:
        for column in _columns_of(m):
            groups.setdefault((m.rule, m.dtype, column), []).append(m)
    return {
        key: Cell(max(group, key=_error), max(group, key=_share), len(group))
        for key, group in groups.items()
    }


def rows(filled: Cells) -> list[tuple[str, str]]:
    """The (rule, dtype) rows that have a measurement, in the order of the plan."""
    present = {(rule, dtype) for rule, dtype, _ in filled}
    return [(rule, dtype) for rule in RULES for dtype in DTYPES if (rule, dtype) in present]


def columns(packages: Iterable[str]) -> tuple[list[Column], list[Column]]:
    """The columns: each package against the definition, and against all others if there are."""
    names = list(packages)
    others = [(OTHERS, name) for name in names] if len(names) > 1 else []
    return [(DEFINITION, name) for name in names], others


def _columns_of(m: Measurement) -> list[Column]:
    left, right = m.between
    return [(DEFINITION, right)] if left == DEFINITION else [(OTHERS, left), (OTHERS, right)]


# An error may be NaN, which is worse than anything.
def _error(m: Measurement) -> tuple[bool, float]:
    return m.error != m.error, m.error


def _share(m: Measurement) -> tuple[bool, float]:
    return m.share != m.share, m.share
