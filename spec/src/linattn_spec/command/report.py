"""The report of a check: the first failures in full, all cases in a table, what fault is likely."""

from collections import Counter
from collections.abc import Sequence

from linattn_spec.command.failure import failure
from linattn_spec.command.flags import flags
from linattn_spec.command.outcome import Outcome, Verdict, count
from linattn_spec.command.suspects import smallest_failure, suspects
from linattn_spec.command.table import Cell, table, wrapped
from linattn_spec.tolerances import VALUE

_VERDICTS: tuple[Verdict, ...] = ("passed", "failed", "not implemented")
_DTYPES = tuple(VALUE)
_SUSPECTS = 5
_MORE_IDS = 20
_ONLY_REFUSALS = (
    "Only calls that must be refused failed. They ask for the error texts of linattn; an "
    "implementation with texts of its own is checked --without bad-input."
)


def report(outcomes: Sequence[Outcome], total: int, limit: int, stopped: str) -> list[str]:
    """The lines; of `total` cases these ran, unless `stopped` says why not all of them."""
    blocks = [*_failures(outcomes, limit), _table(outcomes), _lacking(outcomes), _likely(outcomes)]
    lines = [line for block in blocks if block for line in (*block, "")]
    return [*lines, _verdict(outcomes, total, stopped)]


def passed(outcomes: Sequence[Outcome]) -> bool:
    """Whether something ran and nothing failed."""
    return count(outcomes, "passed") > 0 and count(outcomes, "failed") == 0


def _failures(outcomes: Sequence[Outcome], limit: int) -> list[list[str]]:
    failed = [outcome for outcome in outcomes if outcome.verdict == "failed"]
    known = flags() if failed else {}
    blocks = [failure(outcome, known) for outcome in failed[:limit]]
    rest = [outcome.case.id for outcome in failed[limit:]]
    if rest:
        more = [f"  {name}" for name in rest[:_MORE_IDS]]
        more += [f"  and {len(rest) - _MORE_IDS} more"] if len(rest) > _MORE_IDS else []
        plural = "more failed cases" if limit else "failed cases"
        blocks.append([f"{plural} (--limit prints more of them in full, --json FILE all):", *more])
    return blocks


def _table(outcomes: Sequence[Outcome]) -> list[str]:
    counts = Counter((o.case.operator, o.case.dtype, o.verdict) for o in outcomes)
    ran = {(o.case.operator, o.case.dtype) for o in outcomes}
    rows: list[tuple[Cell, ...]] = [
        (operator, dtype, *(counts[operator, dtype, verdict] for verdict in _VERDICTS))
        for operator in dict.fromkeys(o.case.operator for o in outcomes)
        for dtype in _DTYPES
        if (operator, dtype) in ran
    ]
    heads: tuple[Cell, ...] = ("operator", "dtype", *_VERDICTS)
    return table([heads, *rows, ("all", "", *(count(outcomes, verdict) for verdict in _VERDICTS))])


def _lacking(outcomes: Sequence[Outcome]) -> list[str]:
    """Cases that are not implemented, by what the adapter said of them."""
    reasons = Counter(
        (o.case.operator, o.reason or "no reason given")
        for o in outcomes
        if o.verdict == "not implemented"
    )
    rows = [(number, f"{operator}: {reason}") for (operator, reason), number in reasons.items()]
    return ["not implemented", *(f"  {line}" for line in table(rows))] if rows else []


def _likely(outcomes: Sequence[Outcome]) -> list[str]:
    found = suspects(outcomes)[:_SUSPECTS]
    if not found:
        return []
    known = flags()
    lines = ["likely fault: the flags whose cases failed most often"]
    for suspect in found:
        flag = known[suspect.flag]
        lines.append(f"  {suspect.flag}: {suspect.failed} of {suspect.ran} failed ({flag.source})")
        lines += wrapped(flag.fault, 4)
    lines.append(f"smallest failed case: {smallest_failure(outcomes).case.id}")
    if all(o.case.error for o in outcomes if o.verdict == "failed"):
        lines += wrapped(_ONLY_REFUSALS, 0)
    return lines


def _verdict(outcomes: Sequence[Outcome], total: int, stopped: str) -> str:
    counts = ", ".join(f"{count(outcomes, verdict)} {verdict}" for verdict in _VERDICTS)
    if stopped:
        return f"{stopped} after {len(outcomes)} of {total} cases: {counts}"
    if not passed(outcomes) and count(outcomes, "failed") == 0:
        return f"NOTHING TESTED: {counts}"
    return f"{'PASSED' if passed(outcomes) else 'FAILED'}: {counts}"
