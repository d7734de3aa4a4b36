"""python -m linattn_spec list: one line per case, or one entry per flag."""

import argparse
import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

from linattn_spec.command.flags import flags
from linattn_spec.command.selection import add_filters, filters_of, select
from linattn_spec.command.table import table, wrapped
from linattn_spec.fixtures import Case

# Most ids are shorter; a longer one shifts its own line.
_ID_WIDTH = 48
_PARTS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_filters(parser)
    parser.add_argument("--flags", action="store_true", help="list the flags instead of the cases")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    cases = select(filters_of(options))
    if options.json:
        entries = _flag_entries(cases) if options.flags else [_entry(case) for case in cases]
        print(json.dumps(entries, indent=1))
    else:
        print("\n".join(_flag_lines(cases) if options.flags else _case_lines(cases)))
    return 0


def sizes(case: Case) -> str:
    """What is particular about its shapes, as "B2 T5+7 H6/2/2 D3/4": Hq/Hk/Hv and Dk/Dv."""
    if "x" in case.inputs:
        return str(list(case.inputs["x"].shape))
    query, key, value = (case.inputs[name].shape for name in ("query", "key", "value"))
    if case.error is not None:
        return f"query {list(query)}"
    if case.operator == "onnx_linear_attention":
        q_heads, heads_of_both = (case.arguments[f"{name}_num_heads"] for name in ("q", "kv"))
        heads = (q_heads, heads_of_both, heads_of_both)
        widths = (query[2] // q_heads, value[2] // heads_of_both)
    else:
        heads, widths = (query[-2], key[-2], value[-2]), (query[-1], value[-1])
    tokens = "" if case.operator == "linear_attention_step" else f" T{_tokens(case)}"
    return f"B{query[0]}{tokens} H{'/'.join(map(str, heads))} D{'/'.join(map(str, widths))}"


def _tokens(case: Case) -> str:
    if case.parts is None:
        return str(case.inputs["query"].shape[1])
    if len(case.parts) > _PARTS:
        return f"{sum(case.parts)}={len(case.parts)}parts"
    return "+".join(map(str, case.parts))


def _case_lines(cases: Iterable[Case]) -> list[str]:
    rows = [(c.id, c.operator, c.dtype, sizes(c), ", ".join(c.flags)) for c in cases]
    lines = table([("id", "operator", "dtype", "sizes", "flags"), *rows], _ID_WIDTH)
    if sys.stdout.isatty():
        lines = [_cut(line, shutil.get_terminal_size().columns) for line in lines]
    refused = sum(case.error is not None for case in cases)
    return [*lines, f"{len(rows)} cases, {refused} of them of calls that must be refused"]


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: max(width - 3, 0)] + "..."


def _entry(case: Case) -> dict[str, Any]:
    return {
        "id": case.id,
        "summary": case.summary,
        "operator": case.operator,
        "dtype": case.dtype,
        "flags": case.flags,
        "clause": case.clause,
        "arguments": case.arguments,
        "inputs": {
            name: {"dtype": str(x.dtype), "shape": x.shape} for name, x in case.inputs.items()
        },
        "parts": case.parts,
        "tokens": case.tokens,
        "error": case.error and {"class": case.error[0], "pattern": case.error[1]},
    }


def _flag_entries(cases: Iterable[Case]) -> list[dict[str, Any]]:
    known = flags()
    counts = Counter(flag for case in cases for flag in case.flags)
    return [
        {"flag": name, "fault": known[name].fault, "report": known[name].report, "cases": count}
        for name, count in sorted(counts.items())
    ]


def _flag_lines(cases: Iterable[Case]) -> list[str]:
    entries = _flag_entries(cases)
    heads = table([(e["flag"], e["cases"], "cases", e["report"] or "no report") for e in entries])
    lines = [
        line
        for head, entry in zip(heads, entries, strict=True)
        for line in (head, *wrapped(entry["fault"], 4))
    ]
    return [*lines, f"{len(entries)} flags"]
