"""What a run has found: a table for people, JSON for machines."""

import json

from rich.console import Console
from rich.table import Table

console = Console()


def heading(text):
    console.rule(text, align="left")


def show(figures, checks):
    """Prints the figures of a run and the checks it made, `{what: passed}`."""
    table = Table(title=f"Byte language model on {figures['backend']}", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    bits = figures["bits_per_byte"]
    for name in ("unigram", "bigram", "model"):
        table.add_row(f"{name}, validation bits per byte", f"{bits[name]:.3f}")
    table.add_section()
    for where, speed in figures["bytes_per_second"].items():
        table.add_row(f"bytes per second {where}", f"{speed:.0f}")
    for where, size in figures["state_bytes"].items():
        table.add_row(f"state in bytes {where}", str(size))
    table.add_section()
    costs = figures["cost_per_token"]
    first, last = costs["contexts"][0], costs["contexts"][-1]
    for layer, cost in costs["layers"].items():
        for what, factor, unit in (("seconds", 1e3, "ms"), ("bytes", 1 / 1024, "KiB")):
            ends = " → ".join(f"{cost[what][i] * factor:.2f}" for i in (0, -1))
            table.add_row(f"{layer}, {unit} per token at {first} → {last}", ends)
    table.add_section()
    table.add_row("streaming, largest error of a logit", f"{figures['streaming_error']:.1e}")
    table.add_row("parameters", str(figures["parameters"]))
    table.add_row("seconds, training", f"{figures['seconds']['training']:.0f}")
    table.add_row("seconds, all", f"{figures['seconds']['all']:.0f}")
    table.add_section()
    for what, passed in checks.items():
        table.add_row(what, "[green]yes" if passed else "[bold red]NO")
    console.print(table)


def write(path, figures, checks):
    content = {**figures, "checks": checks}
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
