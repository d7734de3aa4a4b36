"""How many cases kill each mutant: of the fixtures, of the operator's text, and of onnx.

python spec/onnx/teeth.py
"""

import sys
from collections.abc import Iterable, Iterator, Sequence

from official import Official, accepts, official_cases

from linattn_spec.conformance import run_case
from linattn_spec.fixtures import Case, load_cases
from linattn_spec.mutants import MUTANTS, Dissected, killers
from linattn_spec.mutants.table import tried


def node_killers(name: str, official: Iterable[Official]) -> list[str]:
    """The node cases that kill the mutant. Without gradients, none can kill a fault in those."""
    _, adapter = MUTANTS[name]
    return [x.case.id for x in official if tried(x.case, adapter) and not _survives(x, adapter)]


def _survives(official: Official, adapter: Dissected) -> bool:
    try:
        return accepts(official, run_case(official.case, adapter))
    except adapter.raises:
        return False


def rows(cases: Sequence[Case], official: Sequence[Official]) -> Iterator[str]:
    """A Markdown table, row by row."""
    examples = _examples(case.id for case in cases)
    sizes = f"{len(cases)} fixtures | {len(examples)} examples | {len(official)} node cases"
    yield f"| mutant | fault | {sizes} |"
    yield "|---|---|---|---|---|"
    for name, (fault, _) in MUTANTS.items():
        ids = killers(name, cases)
        counts = len(ids), len(_examples(ids)), len(node_killers(name, official))
        yield f"| {name} | {fault} | {' | '.join(map(str, counts))} |"


def _examples(ids: Iterable[str]) -> list[str]:
    """The examples of the operator's text among the fixtures."""
    return [id for id in ids if id.startswith("onnx-example-")]


def main() -> int:
    for row in rows(load_cases(), official_cases()):
        print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
