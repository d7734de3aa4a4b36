"""The table of mutants, and what kills them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from linattn_spec.conformance import differences, run_case
from linattn_spec.fixtures import Case
from linattn_spec.mutants.dissected import Dissected

MUTANTS: dict[str, tuple[str, Dissected]] = {}
"""name -> (the fault in one sentence, the adapter)"""

Kind = TypeVar("Kind", bound=Dissected)


def mutant(kind: type[Kind]) -> type[Kind]:
    """Puts a class into the table, under its name in kebab-case."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()
    MUTANTS[name] = (kind.__doc__ or "", kind())
    return kind


def killers(name: str, cases: Iterable[Case]) -> list[str]:
    """The ids of the value cases that kill the mutant."""
    _, adapter = MUTANTS[name]
    return [
        case.id
        for case in cases
        if case.error is None and case.operator in adapter.operators and kills(case, adapter)
    ]


def kills(case: Case, adapter: Dissected) -> bool:
    """Whether `adapter` fails `case`, by its outputs alone unless its fault is in the gradients."""
    if not adapter.in_gradients:
        case = replace(case, cotangents={}, gradients={})
    return any(d.excessive for d in differences(case, run_case(case, adapter)))


def markdown(cases: Sequence[Case]) -> str:
    """A Markdown table of the mutants, their faults and the number of cases that kill each."""
    rows = [
        f"| {name} | {fault} | {len(killers(name, cases))} |"
        for name, (fault, _) in MUTANTS.items()
    ]
    return "\n".join(["| mutant | fault | cases that kill it |", "|---|---|---|", *rows])
