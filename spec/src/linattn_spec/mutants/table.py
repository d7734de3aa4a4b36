"""The table of mutants, and what kills them."""

import re
from dataclasses import replace

from linattn_spec.conformance import differences, run_case

MUTANTS = {}
"""name -> (the fault in one sentence, the adapter)"""


def mutant(kind):
    """Puts a class into the table, under its name in kebab-case."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()
    MUTANTS[name] = (kind.__doc__, kind())
    return kind


def kill_table(cases):
    """The ids of the value cases that kill each mutant: name -> list."""
    return {
        name: [
            case.id
            for case in cases
            if case.error is None and case.operator in adapter.operators and kills(case, adapter)
        ]
        for name, (_, adapter) in MUTANTS.items()
    }


def kills(case, adapter):
    """Whether `adapter` fails `case`, by its outputs alone unless its fault is in the gradients."""
    if not adapter.in_gradients:
        case = replace(case, cotangents={}, gradients={})
    return any(d.excessive for d in differences(case, run_case(case, adapter)))


def markdown(kill_table):
    """A Markdown table of the mutants, their faults and the number of cases that kill each."""
    rows = [f"| {name} | {MUTANTS[name][0]} | {len(ids)} |" for name, ids in kill_table.items()]
    return "\n".join(["| mutant | fault | cases that kill it |", "|---|---|---|", *rows])
