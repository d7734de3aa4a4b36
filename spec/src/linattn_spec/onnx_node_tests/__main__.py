"""python -m linattn_spec.onnx_node_tests DIRECTORY"""

import argparse
import sys
from collections import Counter
from pathlib import Path

from linattn_spec.fixtures import load_cases
from linattn_spec.onnx_node_tests import node_test, obstacle


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m linattn_spec.onnx_node_tests",
        description="Writes the fixtures as node tests of the ONNX operator LinearAttention.",
    )
    parser.add_argument("directory", type=Path, help="new or empty")
    directory = parser.parse_args(arguments).directory
    if directory.exists() and not (directory.is_dir() and not any(directory.iterdir())):
        parser.error(f"{directory} is not an empty directory")
    try:
        from linattn_spec.onnx_node_tests.write import write
    except ImportError as error:
        parser.error(f"{error}; needed is: pip install linattn-spec[onnx]")
    directory.mkdir(parents=True, exist_ok=True)
    cases = load_cases()
    obstacles = Counter(reason for case in cases if (reason := obstacle(case)) is not None)
    expressible = [case for case in cases if obstacle(case) is None]
    for number, case in enumerate(expressible, 1):
        write(node_test(case), directory)
        _progress(number, len(expressible))
    print(f"{len(expressible)} node tests in {directory}; not expressed:")
    for reason, count in obstacles.most_common():
        print(f"{count:5}  {reason}")
    return 0


def _progress(number: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{number}/{total}", end="\n" if number == total else "", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
