"""Runs the node tests on every runtime, and fails unless they fail exactly where it is known.

python spec/onnx/check.py [DIRECTORY] [--results FILE]
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import onnx
import onnxruntime
from known_failures import KNOWN, surprises
from runtimes import RUNTIMES, Failures

from linattn_spec.fixtures import load_cases
from linattn_spec.onnx_node_tests import NodeTest, node_test, obstacle
from linattn_spec.onnx_node_tests.__main__ import main as write

HERE = Path(__file__).parent
VERSIONS = {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Runs the ONNX node tests of the fixtures.")
    parser.add_argument("directory", nargs="?", type=Path, help="written before; else written now")
    parser.add_argument("--results", type=Path, default=Path("onnx-results.json"))
    options = parser.parse_args(arguments)
    tests = [node_test(case) for case in load_cases() if obstacle(case) is None]
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.directory or Path(temporary) / "node_tests"
        if options.directory is None:
            write([str(directory)])
        results = run(directory, tests)
    options.results.write_text(json.dumps({"versions": VERSIONS, "failures": results}, indent=2))
    print(table(tests, results))
    found = surprises(tests, results)
    print("\n".join(found) or "Every failure is known, and every known failure is one.")
    return 1 if found else 0


def run(directory: Path, tests: list[NodeTest]) -> dict[str, Failures]:
    results = {}
    for runtime, failures in RUNTIMES.items():
        print(f"{runtime}: ", end="", flush=True)
        start = time.perf_counter()
        results[runtime] = failures(directory, tests)
        passed = sum(failure is None for failure in results[runtime].values())
        seconds = time.perf_counter() - start
        print(f"{passed} of {len(tests)} pass, {seconds:.1f} s", flush=True)
    return results


def table(tests: list[NodeTest], results: dict[str, Failures]) -> str:
    """What of the known each runtime was seen to fail, in Markdown."""
    rows = ["| runtime | fails | why |", "|---|---|---|"]
    for runtime, failures in results.items():
        failed = [test for test in tests if failures[test.name] is not None]
        seen = [k for k in KNOWN if k.runtime == runtime and any(map(k.applies, failed))]
        rows += [f"| {runtime} | {k.tests} | {k.reason} |" for k in seen]
        if not failed:
            rows.append(f"| {runtime} | nothing | |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
