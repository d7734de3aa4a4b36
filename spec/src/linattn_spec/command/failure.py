"""A failed case in full, for a person who has to find out why."""

from linattn_spec.command.flags import Flag
from linattn_spec.command.outcome import Outcome
from linattn_spec.command.table import wrapped
from linattn_spec.command.wrong import Element, WrongTensor
from linattn_spec.fixtures import Case


def failure(outcome: Outcome, flags: dict[str, Flag]) -> list[str]:
    case = outcome.case
    lines = [case.id, *wrapped(case.summary, 2), *wrapped(call_in_words(case), 2)]
    for name in case.flags:
        lines += wrapped(f"{name} ({flags[name].source}): {flags[name].fault}", 2)
    lines += [f"  {line}" for line in outcome.reason.splitlines()]
    for tensor in outcome.tensors:
        lines += [f"  {line}" for line in _tensor(tensor, 17 if case.dtype == "float64" else 9)]
    if any(tensor.difference.got == "nothing" for tensor in outcome.tensors):
        lines += wrapped(f"The adapter returned {', '.join(outcome.returned) or 'nothing'}.", 2)
    return lines


def call_in_words(case: Case) -> str:
    arguments = "".join(f", {name}={value!r}" for name, value in case.arguments.items())
    parts = f", in {len(case.parts)} calls of {list(case.parts)} tokens" if case.parts else ""
    return f"{case.operator}({', '.join(case.inputs)}{arguments}), {case.dtype}{parts}"


def _tensor(tensor: WrongTensor, digits: int) -> list[str]:
    difference = tensor.difference
    if tensor.worst is None:
        return [f"{difference.tensor}: expected {difference.expected}, got {difference.got}"]
    labels = ("first", "then", "then")
    elements = [("worst", tensor.worst), *zip(labels, tensor.first, strict=False)]
    return [
        f"{difference.tensor}: {tensor.count} of {tensor.size} elements wrong, "
        f"error {difference.error:.2e}, tolerance {difference.tolerance:.1e}",
        *(f"  {line}" for line in _elements(elements, digits)),
        *([f"  wrong on {'; '.join(tensor.lies)}"] if tensor.lies else []),
    ]


def _elements(elements: list[tuple[str, Element]], digits: int) -> list[str]:
    indices = [str(list(element.index)) for _, element in elements]
    expected = [f"{element.expected:.{digits}g}" for _, element in elements]
    widths = max(map(len, indices)), max(map(len, expected))
    return [
        f"{what:5} {index.ljust(widths[0])}  expected {value.ljust(widths[1])}  "
        f"got {element.got:.{digits}g}"
        for (what, element), index, value in zip(elements, indices, expected, strict=True)
    ]
