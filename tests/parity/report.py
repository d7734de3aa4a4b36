"""The comparison for people, as tables, and for machines, as JSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from parity.cells import Cell, Cells, Column, columns, rows
from parity.compare import DEFINITION, Comparison, Measurement
from parity.results import Results

_SHOWN_FAULTS = 20


def show(comparison: Comparison, filled: Cells, results: Mapping[str, Results], console: Console):
    against_definition, against_each_other = columns(results)
    console.print()
    console.print(_table("Worst relative error against the definition", filled, against_definition))
    if against_each_other:
        title = "Worst relative difference from any other"
        console.print(_table(title, filled, against_each_other))
    console.print(
        "Green: at most half of the tolerance in every tensor; yellow: within it; red: beyond it.\n"
    )
    # What is wrong by itself comes before what is wrong with all the others.
    excesses = sorted(comparison.excesses, key=lambda m: m.between[0] != DEFINITION)
    wrong = [*comparison.faults, *map(str, excesses)]
    for line in wrong[:_SHOWN_FAULTS]:
        console.print(f"[red]✗[/] {_escaped(line)}")
    if len(wrong) > _SHOWN_FAULTS:
        console.print(f"[red]✗[/] and {len(wrong) - _SHOWN_FAULTS} more, in results.json")
    for dtype in ("float64", "float32"):
        worst = _worst(filled, dtype)
        if worst is not None:
            console.print(f"Worst {dtype} error: {worst}")


def write_json(
    comparison: Comparison,
    filled: Cells,
    results: Mapping[str, Results],
    run: str,
    fixtures: str,
    path: Path,
) -> None:
    document = {
        "passed": comparison.passed,
        "run": run,
        "fixtures": fixtures,
        "packages": {name: result.versions for name, result in results.items()},
        "tensors_compared": len(comparison.measurements),
        "refused_calls": comparison.refusals,
        "faults": comparison.faults,
        "excesses": [_as_json(m) for m in comparison.excesses],
        "cells": [
            {
                "rule": rule,
                "dtype": dtype,
                "package": package,
                "against": against,
                "tensors": cell.tensors,
                "worst": _as_json(cell.worst),
                "closest_to_its_tolerance": _as_json(cell.closest),
            }
            for (rule, dtype, (against, package)), cell in filled.items()
        ],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def _table(title: str, filled: Cells, wanted: list[Column]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("rule", no_wrap=True)
    table.add_column("dtype", no_wrap=True)
    for column in wanted:
        table.add_column(heading(column), justify="right", no_wrap=True)
    order = rows(filled)
    for number, (rule, dtype) in enumerate(order):
        last = number + 1 == len(order) or order[number + 1][0] != rule
        first = number == 0 or order[number - 1][0] != rule
        shown = [_shown(filled.get((rule, dtype, column))) for column in wanted]
        table.add_row(rule if first else "", dtype, *shown, end_section=last)
    return table


def heading(column: Column) -> str:
    """The package's name, in as many lines as it has parts."""
    return column[1].replace("-", "\n")


def _shown(cell: Cell | None) -> Text:
    if cell is None:
        return Text("–", style="red")
    if cell.closest.excessive:
        style = "bold red"
    else:
        style = "green" if cell.closest.share <= 0.5 else "yellow"
    return Text(f"{cell.worst.error:.0e}" if cell.worst.error else "0", style=style)


def _worst(filled: Cells, dtype: str) -> Measurement | None:
    errors = [
        cell.worst
        for (_, of, (against, _)), cell in filled.items()
        if of == dtype and against == DEFINITION
    ]
    return max(errors, key=lambda m: (m.error != m.error, m.error), default=None)


def _as_json(m: Measurement) -> dict[str, Any]:
    """JSON has no infinity: an error without a number is a string."""
    number = m.error if abs(m.error) < float("inf") else str(m.error)
    return {
        "between": m.between,
        "case": m.call.case,
        "mode": m.call.mode,
        "tensor": m.tensor,
        "error": number,
        "tolerance": m.tolerance,
    }


def _escaped(line: str) -> str:
    return line.replace("[", "\\[")
