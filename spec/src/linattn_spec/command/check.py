"""python -m linattn_spec check: an implementation, seen through its adapter, against the cases."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from linattn_spec.command import UsageError
from linattn_spec.command.adapter import CONTRACT, held_to_contract, load
from linattn_spec.command.outcome import Outcome, outcome
from linattn_spec.command.progress import Progress
from linattn_spec.command.report import passed, report
from linattn_spec.command.results import results
from linattn_spec.command.selection import add_filters, filters_of, forward_only, select
from linattn_spec.conformance import Adapter
from linattn_spec.fixtures import Case

_INTERRUPTED = "interrupted"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = CONTRACT
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("adapter", help="module.function or module:function")
    add_filters(parser)
    parser.add_argument(
        "--case", action="append", default=[], metavar="ID", help="no case but this"
    )
    parser.add_argument("--forward", action="store_true", help="ask for no gradients")
    parser.add_argument("--fail-fast", action="store_true", help="stop at the first failed case")
    parser.add_argument(
        "--limit", type=_natural, default=5, metavar="N", help="failures printed in full; default 5"
    )
    parser.add_argument("--json", metavar="FILE", help="write all outcomes there")


def run(options: argparse.Namespace) -> int:
    cases = select(filters_of(options))
    if options.forward:
        cases = tuple(forward_only(case) for case in cases)
    adapter = held_to_contract(load(options.adapter), options.adapter, options.forward)
    if options.json:
        _writable(options.json)
    outcomes, stopped = _outcomes(cases, adapter, options.fail_fast)
    print("\n".join(report(outcomes, len(cases), options.limit, stopped)))
    if options.json:
        _write(options.json, results(options.adapter, options.version, outcomes, not stopped))
    if stopped == _INTERRUPTED:
        return 130
    return 0 if passed(outcomes) else 1


def _outcomes(
    cases: Sequence[Case], adapter: Adapter, fail_fast: bool
) -> tuple[list[Outcome], str]:
    """Of all cases, or of those before what the second says stopped it."""
    outcomes: list[Outcome] = []
    failed = 0
    progress = Progress(len(cases))
    try:
        for done, case in enumerate(cases):
            progress.starts(case.id, done, failed)
            outcomes.append(outcome(case, adapter))
            failed += outcomes[-1].verdict == "failed"
            progress.ended(done + 1, failed)
            if failed and fail_fast and len(outcomes) < len(cases):
                return outcomes, "FAILED, stopped at the first failure"
    except KeyboardInterrupt:
        return outcomes, _INTERRUPTED
    finally:
        progress.clear()
    return outcomes, ""


def _writable(path: str) -> None:
    """Raises UsageError before the work that would be lost if the file cannot be written."""
    try:
        open(path, "a", encoding="utf-8").close()
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a number from 0 up, got {text!r}")
    return int(text)
