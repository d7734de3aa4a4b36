"""python -m linattn_spec.mutants [--matrix FILE.json]"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from linattn_spec.fixtures import load_cases
from linattn_spec.mutants import matrix, rendered, transposed


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table of mutants; the matrix says by id which case kills which mutant."""
    parser = argparse.ArgumentParser(
        prog="python -m linattn_spec.mutants", description=main.__doc__
    )
    parser.add_argument("--matrix", type=Path, metavar="FILE.json", help="write what kills what")
    options = parser.parse_args(arguments)
    cases = load_cases()
    killed = matrix(cases)
    examples = [case.id for case in cases if case.id.startswith("onnx-example-")]
    by_examples = {name: [id for id in examples if id in ids] for name, ids in killed.items()}
    title = f"{len(examples)} ONNX examples"
    print(rendered({"all fixtures": killed, title: by_examples}))
    if options.matrix:
        both = {"killed_by": killed, "kills": transposed(killed, cases)}
        options.matrix.write_text(json.dumps(both, indent=1) + "\n")


if __name__ == "__main__":
    main()
