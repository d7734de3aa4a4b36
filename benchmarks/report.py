"""A run for people, as tables in the terminal, and for machines, as JSON."""

import json
from itertools import groupby

from rich.table import Table
from rich.text import Text

from benchmarks import limits
from benchmarks.measurement import Measurement

MIB = 2**20


def write(path, machine, run, measurements, targets):
    """Writes everything that a run has found."""
    measurements = list(measurements)
    document = {
        "machine": machine,
        "versions": run.versions,
        "absent": run.absent,
        "measurements": [m.json() for m in measurements],
        "targets": [
            {
                "name": target.name,
                "limit": target.limit,
                "ratio": ratio,
                "met": target.met(ratio),
                "bound": target.bound and target.bound.ratio(measurements),
            }
            for target, ratio in judged(targets, measurements)
        ],
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read(path):
    """The document that `write` wrote, with measurements as such."""
    document = json.loads(path.read_text(encoding="utf-8"))
    document["measurements"] = [Measurement.of(x) for x in document["measurements"]]
    return document


def judged(targets, measurements):
    """Every target whose sides were measured, with its ratio."""
    for target in targets:
        ratio = target.ratio(measurements)
        if ratio is not None:
            yield target, ratio


def unjudged(targets, measurements):
    count = sum(target.ratio(measurements) is None for target in targets)
    return (
        f"{count} of {len(targets)} targets are not judged: this run did not measure their sides."
    )


def ordered(measurements):
    """`(pass, problem)` and its measurements, fastest first, those without times last."""

    def heading(m):
        return m.problem.shape, m.problem.dtype, m.problem.rule, m.problem.per_key, m.which

    ranked = sorted(measurements, key=lambda m: (heading(m), m.median or float("inf")))
    for _, group in groupby(ranked, heading):
        group = list(group)
        yield (group[0].which, group[0].problem), group


HEADINGS = ("ms", "least", "quartiles", "share", "first s", "MiB", "error")


def cells(m, fastest):
    """Of a measurement: median, least, quartiles, share of `fastest`; first call, peak, error."""
    times = ["", "", ""]
    if m.seconds:
        low, high = m.quartiles
        times = [_ms(m.median), _ms(min(m.seconds)), f"{_ms(low)}–{_ms(high)}"]
    peak = "" if m.peak is None else f"{m.peak / MIB:.0f}"
    first = "" if m.first_call is None else f"{m.first_call:.2f}"
    error = f"{max(m.errors.values()):.0e}" if m.errors else ""
    part = limits.share(m, fastest)
    return [*times, "" if part is None else f"{part:.0%}", first, peak, error]


def missing(group):
    """What was asked for and is not there, and why."""
    for m in group:
        if m.reason is not None:
            yield f"Not timed: {m.contender}, {m.reason}"
        if m.peak_reason is not None:
            yield f"No peak: {m.contender}, {m.peak_reason}"


def show(console, run, measurements, targets):
    fastest = limits.rate(measurements)
    for (which, problem), group in ordered(measurements):
        table = Table(title=f"{which}: {problem}", title_justify="left")
        table.add_column("contender", no_wrap=True)
        for name in HEADINGS:
            table.add_column(name, justify="right", no_wrap=True)
        for m in group:
            table.add_row(m.contender, *cells(m, fastest), style="red" if m.reason else None)
        console.print(table)
        for line in missing(group):
            console.print(Text(line, style="red"))
    for family, reason in run.absent.items():
        console.print(Text(f"absent: {family}, {reason}", style="yellow"))
    show_targets(console, targets, measurements)


def show_targets(console, targets, measurements):
    table = Table(title="Targets", title_justify="left")
    table.add_column("target")
    for name in ("limit", "ratio", "met"):
        table.add_column(name, justify="right", no_wrap=True)
    for target, ratio in judged(targets, measurements):
        met = target.met(ratio)
        mark = Text("yes" if met else "NO", _style(met))
        table.add_row(target.name, target.limit, f"{ratio:.3g}", mark)
    if table.rows:
        console.print(table)
    console.print(unjudged(targets, measurements))


def _style(met):
    return "green" if met else "bold red"


def _ms(seconds):
    milliseconds = 1e3 * seconds
    return f"{milliseconds:.3g}" if milliseconds < 1000 else f"{milliseconds:.0f}"
