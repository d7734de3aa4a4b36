"""Asks one peer, shows what it says, and passes the verdict."""

import argparse
import importlib
import sys
import time
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.progress import track

from second_opinions.compare import ask, judge
from second_opinions.planted import contradictions
from second_opinions.problems import problems
from second_opinions.report import passed, show, write_json

_PEERS = ("onnxruntime", "transformers", "fla")
_RESULTS = Path(__file__).resolve().parents[2] / "oracle-results"


def main() -> int:
    parser = argparse.ArgumentParser("second_opinions", description=__doc__)
    parser.add_argument("peer", choices=_PEERS)
    parser.add_argument("--results", type=Path, default=_RESULTS)
    options = parser.parse_args()
    console = Console()
    if not console.is_terminal:
        console = Console(width=170)

    started = time.monotonic()
    peer = importlib.import_module(f"second_opinions.peers.{options.peer}")
    answers = [
        answer
        for case in track(list(problems()), "asking", console=console, transient=True)
        for answer in ask(peer.FUNCTIONS, case)
    ]
    comparison = judge(answers)
    planted = contradictions(peer.PLANTED, answers)
    versions = {name: version(name) for name in peer.DISTRIBUTIONS}
    path = options.results.resolve() / f"{options.peer}.json"
    write_json(comparison, planted, versions, path)
    show(comparison, planted, console)

    agrees = passed(comparison, planted)
    verdict = "[bold green]The definition holds" if agrees else "[bold red]Contradicted"
    stated = ", ".join(f"{name} {number}" for name, number in versions.items())
    console.print(
        f"{verdict}[/]: {stated}; {len({answer.case.id for answer in answers})} problems, "
        f"{len(comparison.measurements)} results compared, {time.monotonic() - started:.0f} s.\n"
        f"In {path}: the same as JSON.",
        highlight=False,
        soft_wrap=True,
    )
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
