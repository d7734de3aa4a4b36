"""What kind of fault the failures look like: the flags of the failed cases tell."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from linattn_spec.command.outcome import Outcome


@dataclass(frozen=True)
class Suspect:
    flag: str
    failed: int
    ran: int


def smallest_failure(outcomes: Iterable[Outcome]) -> Outcome:
    """The failed case with the fewest numbers to look at."""
    failed = (outcome for outcome in outcomes if outcome.verdict == "failed")
    return min(failed, key=lambda o: sum(x.size for x in o.case.inputs.values()))


def suspects(outcomes: Iterable[Outcome]) -> list[Suspect]:
    """Every flag of a failed case, the one whose cases failed most often first.

    One failure of one case says less than nine of ten, so each flag's share is taken as if one more
    of its cases had passed.
    """
    ran: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for outcome in outcomes:
        if outcome.verdict != "not implemented":
            ran.update(outcome.case.flags)
        if outcome.verdict == "failed":
            failed.update(outcome.case.flags)
    found = [Suspect(flag, count, ran[flag]) for flag, count in failed.items()]
    return sorted(found, key=lambda s: (-s.failed / (s.ran + 1), s.flag))
