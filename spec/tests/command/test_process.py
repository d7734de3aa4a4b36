"""`python -m linattn_spec` as a process of its own, in which a warning is an error."""

import os
import subprocess
import sys
from pathlib import Path

import linattn_spec

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(linattn_spec.__file__).parents[1])}


def module(*arguments, cwd):
    """A finished process of its own, in which a warning is an error."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "linattn_spec", *arguments],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_an_adapter_in_the_current_directory_is_found_and_no_warning_is_raised(tmp_path):
    (tmp_path / "mine.py").write_text("from linattn_spec.generate.oracle import oracle as adapter")
    done = module("check", "mine.adapter", "--operator=relu", "--without=bad-input", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "\nPASSED: " in done.stdout


def test_a_module_that_exits_when_imported_is_not_a_pass(tmp_path):
    (tmp_path / "mine.py").write_text("raise SystemExit(0)")
    done = module("check", "mine.adapter", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("python -m linattn_spec: cannot import mine: SystemExit: 0\n")


def test_a_reader_that_closes_early_causes_no_traceback(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "linattn_spec", "list"],
        stdout=writer,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        cwd=tmp_path,
        timeout=60,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")
