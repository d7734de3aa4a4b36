"""python -m linattn_spec show: one case, for a person who has to make it pass."""

import argparse
from collections.abc import Iterable

from linattn_spec.command import UsageError
from linattn_spec.command.flags import flags
from linattn_spec.command.selection import closest, find
from linattn_spec.command.table import wrapped
from linattn_spec.command.tensors import described, elements
from linattn_spec.fixtures import Arrays, Case

_FIRST = ("query", "key", "value", "output")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("case", metavar="id", help="of the case")
    parser.add_argument("--tensor", metavar="NAME", help="all of one tensor, as input.query")
    parser.add_argument("--bits", action="store_true", help="with --tensor: the bits in hex, too")


def run(options: argparse.Namespace) -> int:
    if options.bits and not options.tensor:
        raise UsageError("--bits needs --tensor NAME")
    case = find(options.case)
    for line in _tensor(case, options.tensor, options.bits) if options.tensor else _case(case):
        print(line)
    return 0


def tensors(case: Case) -> Arrays:
    """All tensors of the case by the names that its file has for them."""
    groups = {
        "input": case.inputs,
        "output": case.outputs,
        "cotangent": case.cotangents,
        "gradient": case.gradients,
    }
    return {f"{group}.{name}": x for group, named in groups.items() for name, x in named.items()}


def call(case: Case) -> list[str]:
    """The call in Python, with a variable of its own for each input."""
    values: dict[str, str] = {}
    for name in _in_order(case.inputs):
        argument, dot, _ = name.partition(".")
        if dot:
            items = values.get(argument, "()")[1:-1]
            values[argument] = f"({items}{name.replace('.', '_')}, )"
        else:
            values[argument] = name
    values |= {name: repr(value) for name, value in case.arguments.items()}
    values = {name: value.replace(", )", ",)") for name, value in values.items()}
    return [f"{case.operator}(", *(f"    {name}={value}," for name, value in values.items()), ")"]


def _tensor(case: Case, name: str, bits: bool) -> Iterable[str]:
    known = tensors(case)
    if name not in known:
        raise UsageError(f"{case.id} has no tensor {name!r}{closest(name, known)}")
    return elements(known[name], bits)


def _case(case: Case) -> list[str]:
    return [
        case.id,
        *wrapped(case.summary, 2),
        *_flags(case),
        *_call(case),
        *_group("inputs", "input", case.inputs, case),
        *(_refusal(*case.error) if case.error else _results(case)),
    ]


def _flags(case: Case) -> list[str]:
    known = flags()
    lines = ["", "flags"]
    for name in case.flags:
        lines += [f"  {name} ({known[name].source})", *wrapped(known[name].fault, 4)]
    return lines


def _call(case: Case) -> list[str]:
    lines = ["", f"call, in {case.dtype} (clause: {case.clause})"]
    lines += [f"  {line}" for line in call(case)]
    if case.parts is not None:
        lines += wrapped(
            f"One call for each part of {list(case.parts)} tokens, each with the state that the "
            "call before it returned; the outputs are put together, the state is the last one.",
            2,
        )
    return lines


def _results(case: Case) -> list[str]:
    lines = _group("expected results", "output", case.outputs, case)
    if case.gradients:
        total = " + ".join(f"sum(cotangent.{x} * {x})" for x in _in_order(case.cotangents))
        lines += _group(f"expected gradients of {total}", "gradient", case.gradients, case)
        lines += _group("cotangents", "cotangent", case.cotangents, case)
    lines.append("")
    if case.tokens is not None:
        lines += wrapped(f"Compared at these tokens only: {list(case.tokens)}.", 0)
    lines.append("The tolerance is that of max|x - expected| / max|expected|, for each tensor.")
    if case.tolerance_reason is not None:
        lines += wrapped(f"It is wider than usual: {case.tolerance_reason}", 0)
    return lines


def _refusal(name: str, pattern: str) -> list[str]:
    return ["", "must be refused", f"  with {name}, its text matching (re.search)", f"  {pattern}"]


def _group(title: str, group: str, named: Arrays, case: Case) -> list[str]:
    lines = ["", title]
    for name in _in_order(named):
        full = f"{group}.{name}"
        if full in case.generated:
            notes = ", computed and in no file"
        elif group in ("output", "gradient"):
            tolerance = case.tolerances[name if group == "output" else full]
            notes = f", tolerance {tolerance:.2g}"
        else:
            notes = ""
        lines += [f"  {line}" for line in described(full, named[name], notes)]
    return lines


def _in_order(names: Iterable[str]) -> list[str]:
    """As in a signature: what every call has first."""
    return sorted(names, key=lambda x: (_FIRST.index(x) if x in _FIRST else len(_FIRST), x))
