"""The table of mutants, and what kills them."""

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from linattn_spec.conformance import check_case, differences, run_case
from linattn_spec.fixtures import Case
from linattn_spec.mutants.dissected import Dissected

MUTANTS: dict[str, tuple[str, Dissected]] = {}
"""name -> (the fault in one sentence, the adapter)"""

Matrix = Mapping[str, Sequence[str]]

Kind = TypeVar("Kind", bound=Dissected)


def mutant(kind: type[Kind]) -> type[Kind]:
    """Puts a class into the table, under its name in kebab-case."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()
    MUTANTS[name] = (kind.__doc__ or "", kind())
    return kind


def killers(name: str, cases: Iterable[Case]) -> list[str]:
    """The ids of the cases that kill the mutant."""
    _, adapter = MUTANTS[name]
    return [case.id for case in cases if tried(case, adapter) and kills(case, adapter)]


def tried(case: Case, adapter: Dissected) -> bool:
    """Whether the mutant is tried on the case: on one that can show its fault, unless too long."""
    return (
        (case.error is not None) == adapter.in_checks
        and case.operator in adapter.operators
        and case.dtype in adapter.dtypes
        and length(case) <= adapter.longest
        and (not adapter.shows_with or not case.inputs.keys().isdisjoint(adapter.shows_with))
    )


def length(case: Case) -> int:
    """The tokens of a call."""
    query = case.inputs.get("query")
    return 1 if query is None or case.operator.endswith("step") else query.shape[1]


def kills(case: Case, adapter: Dissected) -> bool:
    """Whether `adapter` fails `case`, by its outputs alone unless its fault is in the gradients."""
    if adapter.in_checks:
        return not refuses(case, adapter)
    if not adapter.in_gradients:
        case = replace(case, cotangents={}, gradients={})
    try:
        results = run_case(case, adapter)
    except adapter.raises:
        return True
    return any(d.excessive for d in differences(case, results))


def refuses(case: Case, adapter: Dissected) -> bool:
    """Whether `adapter` refuses the call of `case` as it should."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is let through may be converted
        try:
            check_case(case, adapter)
        except AssertionError:
            return False
    return True


def matrix(cases: Sequence[Case]) -> Matrix:
    """The ids of the cases that kill each mutant, by the mutant's name."""
    return {name: killers(name, cases) for name in MUTANTS}


def transposed(killed_by: Matrix, cases: Iterable[Case]) -> dict[str, list[str]]:
    """The names of the mutants that each case kills, by the case's id."""
    return {case.id: [name for name, ids in killed_by.items() if case.id in ids] for case in cases}


def markdown(columns: Mapping[str, Sequence[Case]]) -> str:
    """A Markdown table of the mutants and, for each set of cases, how many of them kill each."""
    return rendered({title: matrix(cases) for title, cases in columns.items()})


def rendered(columns: Mapping[str, Matrix]) -> str:
    """The table of `markdown` for matrices that are there already."""
    rows = [["mutant", "fault", *columns], ["---"] * (2 + len(columns))]
    for name, (fault, _) in MUTANTS.items():
        rows.append([name, fault, *(str(len(killed[name])) for killed in columns.values())])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
