"""What became of one case: passed, failed and how, or not implemented."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from linattn_spec.command import UsageError
from linattn_spec.command.adapter import last_lines
from linattn_spec.command.wrong import WrongTensor, wrong_tensor
from linattn_spec.conformance import Adapter, check_case, differences, run_case
from linattn_spec.fixtures import Case

Verdict = Literal["passed", "failed", "not implemented"]


@dataclass(frozen=True)
class Outcome:
    """Of a failure, either `tensors` or `reason` say what is wrong.

    Attributes:
        case: what was asked.
        verdict: what became of it.
        reason: the text of the NotImplementedError; what was raised, or was not, and should.
        tensors: those beyond their tolerance.
        returned: the names of all results that came.
    """

    case: Case
    verdict: Verdict
    reason: str = ""
    tensors: tuple[WrongTensor, ...] = ()
    returned: tuple[str, ...] = ()


def outcome(case: Case, adapter: Adapter) -> Outcome:
    """Puts one case to `adapter`.

    Raises:
        UsageError: it broke its contract.
    """
    try:
        with np.errstate(all="ignore"):
            return _refusal(case, adapter) if case.error else _values(case, adapter)
    except (KeyboardInterrupt, UsageError):
        raise
    except NotImplementedError as error:
        return Outcome(case, "not implemented", _first_line(error))
    # Whatever else comes, SystemExit too, is of the adapter's making and ends this case alone.
    except BaseException as error:
        return Outcome(case, "failed", last_lines(error))


def count(outcomes: Iterable[Outcome], verdict: Verdict) -> int:
    return sum(outcome.verdict == verdict for outcome in outcomes)


def _values(case: Case, adapter: Adapter) -> Outcome:
    results = run_case(case, adapter)
    excessive = [d for d in differences(case, results) if d.excessive]
    tensors = tuple(wrong_tensor(case, d, results.get(d.tensor)) for d in excessive)
    return Outcome(case, "failed" if tensors else "passed", "", tensors, tuple(map(str, results)))


def _refusal(case: Case, adapter: Adapter) -> Outcome:
    try:
        check_case(case, adapter)
    except AssertionError as error:
        if isinstance(error.__cause__, NotImplementedError | UsageError):
            raise error.__cause__ from None
        _, _, reason = str(error).partition("\n")
        return Outcome(case, "failed", "\n".join(line.strip() for line in reason.splitlines()))
    return Outcome(case, "passed")


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "")
