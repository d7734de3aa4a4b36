"""The worst error of each pair of columns, per rule and dtype."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from parity.compare import DEFINITION, Measurement
from parity.plan import DTYPES, RULES

Between = tuple[str, str]


@dataclass(frozen=True)
class Cell:
    """The measurement with the largest error, and the one that is closest to its tolerance."""

    worst: Measurement
    closest: Measurement
    tensors: int


Cells = dict[tuple[str, str, Between], Cell]


def cells(measurements: Iterable[Measurement]) -> Cells:
    groups: dict[tuple[str, str, Between], list[Measurement]] = {}
    for m in measurements:
        groups.setdefault((m.rule, m.dtype, m.between), []).append(m)
    return {
        key: Cell(max(group, key=_error), max(group, key=_share), len(group))
        for key, group in groups.items()
    }


def rows(filled: Cells) -> list[tuple[str, str]]:
    """The (rule, dtype) rows that have a measurement, in the order of the plan."""
    present = {(rule, dtype) for rule, dtype, _ in filled}
    return [(rule, dtype) for rule in RULES for dtype in DTYPES if (rule, dtype) in present]


def columns(packages: Iterable[str]) -> tuple[list[Between], list[Between]]:
    """The columns: each package against the definition, and each pair."""
    names = list(packages)
    return [(DEFINITION, name) for name in names], list(combinations(names, 2))


# An error may be NaN, which is worse than anything.
def _error(m: Measurement) -> tuple[bool, float]:
    return m.error != m.error, m.error


def _share(m: Measurement) -> tuple[bool, float]:
    return m.share != m.share, m.share
