"""The outcomes of a check as JSON, for machines."""

import json
import math
from collections.abc import Sequence
from typing import Any

from linattn_spec.command.outcome import Outcome, count
from linattn_spec.command.suspects import suspects
from linattn_spec.command.wrong import Element, WrongTensor


def results(adapter: str, version: str, outcomes: Sequence[Outcome], complete: bool) -> str:
    """All outcomes; `complete` unless the check was stopped before its last case."""
    document = {
        "adapter": adapter,
        "version": version,
        "complete": complete,
        "passed": count(outcomes, "passed"),
        "failed": count(outcomes, "failed"),
        "not_implemented": count(outcomes, "not implemented"),
        "flags": {s.flag: {"failed": s.failed, "ran": s.ran} for s in suspects(outcomes)},
        "cases": [_case(outcome) for outcome in outcomes],
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _case(outcome: Outcome) -> dict[str, Any]:
    return {
        "id": outcome.case.id,
        "operator": outcome.case.operator,
        "dtype": outcome.case.dtype,
        "flags": outcome.case.flags,
        "verdict": outcome.verdict,
        "reason": outcome.reason,
        "tensors": [_tensor(tensor) for tensor in outcome.tensors],
    }


def _tensor(tensor: WrongTensor) -> dict[str, Any]:
    """What is not finite, which JSON has no number for, is null; the text of `got` tells."""
    difference = tensor.difference
    return {
        "tensor": difference.tensor,
        "error": _number(difference.error),
        "tolerance": difference.tolerance,
        "expected": difference.expected,
        "got": difference.got,
        "wrong": tensor.count,
        "elements": tensor.size,
        "worst": tensor.worst and _element(tensor.worst),
        "first": [_element(element) for element in tensor.first],
    }


def _element(element: Element) -> dict[str, Any]:
    expected, got = _number(element.expected), _number(element.got)
    return {"index": element.index, "expected": expected, "got": got}


def _number(x: float) -> float | None:
    return x if math.isfinite(x) else None
