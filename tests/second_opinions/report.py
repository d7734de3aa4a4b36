"""The comparison for people, as a table, and for machines, as JSON."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from second_opinions.compare import Comparison, Measurement
from second_opinions.sequence import CALL

_COLUMNS = {
    "output": "output",
    "final_state": "state",
    "gradient.query": "d query",
    "gradient.key": "d key",
    "gradient.value": "d value",
    "gradient.log_decay": "d decay",
    "gradient.beta": "d beta",
    "gradient.initial_state": "d state",
}
_SHOWN = 20

Rows = dict[tuple[str, str], dict[str, list[Measurement]]]


def show(comparison: Comparison, planted: Mapping[str, int], console: Console) -> None:
    console.print(_table(_rows(comparison)))
    console.print(
        "Worst max|x - definition| / max|definition|, without known faults. Green: at most half of "
        "the limit; yellow: within it; red: beyond it.\n"
    )
    for reason, functions in _known(comparison).items():
        shown = ", ".join(f"{function} ({count})" for function, count in functions.items())
        console.print(f"[yellow]known[/] {reason}: in results of {shown}\n", highlight=False)
    if planted:
        weakest = min(planted, key=planted.__getitem__)
        console.print(
            f"{len(planted)} faults planted in the definition; the least contradicted is "
            f"{weakest}, by {planted[weakest]} results.",
            highlight=False,
        )
    wrong = [*map(str, comparison.unexpected), *comparison.vanished, *_missed(planted)]
    for line in wrong[:_SHOWN]:
        console.print("[red]✗[/]", escape(line), highlight=False)
    if len(wrong) > _SHOWN:
        console.print(f"[red]✗[/] and {len(wrong) - _SHOWN} more, in the JSON file")


def passed(comparison: Comparison, planted: Mapping[str, int]) -> bool:
    return comparison.passed and bool(planted) and not _missed(planted)


def write_json(
    comparison: Comparison, planted: Mapping[str, int], versions: Mapping[str, str], path: Path
) -> None:
    document = {
        "passed": passed(comparison, planted),
        "versions": versions,
        "results_compared": len(comparison.measurements),
        "unexpected": [str(m) for m in comparison.unexpected],
        "vanished": comparison.vanished,
        "planted": planted,
        "rows": [
            {
                "function": function,
                "rule": rule,
                "result": tensor,
                "compared": len(found),
                "worst": _as_json(max(_sound(found), key=_error, default=None)),
                "closest_to_its_limit": _as_json(max(_sound(found), key=_share, default=None)),
                "known": Counter(m.known for m in found if m.excused),
            }
            for (function, rule), row in _rows(comparison).items()
            for tensor, found in row.items()
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _table(rows: Rows) -> Table:
    table = Table(title="Second opinions on the definition", title_justify="left")
    table.add_column("function", overflow="fold")
    table.add_column("rule", no_wrap=True)
    table.add_column("results", justify="right")
    for heading in _COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("known", justify="right")
    before = None
    for (function, rule), row in rows.items():
        measured = [m for found in row.values() for m in found]
        known = sum(m.excused for m in measured)
        table.add_row(
            function if function != before else "",
            rule,
            str(len(measured)),
            *(_cell(row.get(tensor, [])) for tensor in _COLUMNS),
            str(known or ""),
        )
        before = function
    return table


def _cell(found: list[Measurement]) -> Text:
    sound = _sound(found)
    if not sound:
        return Text("", style="dim")
    worst, share = max(map(_error, sound)), max(map(_share, sound))
    style = "bold red" if not share <= 1 else "green" if share <= 0.5 else "yellow"
    return Text(f"{worst:.0e}" if worst else "0", style=style)


def _rows(comparison: Comparison) -> Rows:
    rows: Rows = defaultdict(lambda: defaultdict(list))
    for m in comparison.measurements:
        rows[m.function, m.rule][m.tensor].append(m)
    return dict(sorted(rows.items(), key=lambda row: row[0]))


def _known(comparison: Comparison) -> dict[str, Counter[str]]:
    """How many results of which functions each known fault spoils."""
    known: dict[str, Counter[str]] = defaultdict(Counter)
    for m in comparison.measurements:
        if m.excused and m.known is not None:
            known[m.known][m.function] += 1
    return known


def _missed(planted: Mapping[str, int]) -> list[str]:
    missed = [name for name, contradicting in planted.items() if not contradicting]
    return [f"{name}, planted in the definition, goes unnoticed" for name in missed]


def _sound(found: list[Measurement]) -> list[Measurement]:
    """Those that no known fault spoils."""
    return [m for m in found if m.tensor != CALL and not m.excused]


def _error(m: Measurement) -> float:
    return m.difference.error


def _share(m: Measurement) -> float:
    return m.share


def _as_json(m: Measurement | None) -> dict[str, Any] | None:
    """JSON has no infinity: an error without a number is a string."""
    if m is None:
        return None
    error = m.difference.error
    number = error if error < float("inf") else str(error)
    return {"problem": m.case, "error": number, "limit": m.difference.tolerance}
