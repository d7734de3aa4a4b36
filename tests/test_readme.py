"""Every Python block of the READMEs runs as it stands, and every command in them exists."""

import ast
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
FRAMEWORKS = {"jax", "keras", "tensorflow", "torch"}
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "*/README.md", "spec/*/README.md", "packages/*/README.md")
    for path in ROOT.glob(pattern)
)
# In a package's README, no other framework may be needed.
FRAMEWORKS_OF = {
    "linattn-core": set(),
    "linattn-jax": {"jax"},
    "linattn-keras": {"keras", "torch"},
    "linattn-tf": {"keras", "tensorflow"},  # TensorFlow's own installation has Keras in it
    "linattn-torch": {"torch"},
}

_FORBID = """
import sys
sys.modules.update(dict.fromkeys({forbidden}))
"""


class Block(NamedTuple):
    path: Path
    line: int
    language: str
    text: str

    def __str__(self):
        return f"{self.path.relative_to(ROOT)}:{self.line}"


def blocks(path, language):
    text = path.read_text(encoding="utf-8")
    for match in re.finditer(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL):
        if match[2] == language:
            line = text.count("\n", 0, match.start()) + 2
            yield Block(path, line, language, textwrap.dedent(match[3]))


def frameworks(code):
    """The frameworks that a piece of Python imports."""
    modules = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module.partition(".")[0])
    return modules & FRAMEWORKS


def run(code, allowed, directory):
    """Runs `code` in a process of its own, in which no other framework can be imported."""
    forbidden = _FORBID.format(forbidden=sorted(FRAMEWORKS - allowed))
    return subprocess.run(
        [sys.executable, "-c", forbidden + code], capture_output=True, text=True, cwd=directory
    )


PYTHON = [block for path in DOCUMENTS for block in blocks(path, "python")]
CONSOLE = [block for path in DOCUMENTS for block in blocks(path, "console")]
COMMANDS = [
    (block, line.partition("#")[0].strip())
    for block in CONSOLE
    for line in block.text.splitlines()
    if line.partition("#")[0].strip()
]


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_the_block_runs_with_its_own_framework_alone(block, tmp_path):
    allowed = FRAMEWORKS_OF.get(block.path.parent.name)
    if allowed is None:
        allowed = frameworks(block.text)
        assert len(allowed) <= 1, "one framework per block"
    process = run(block.text, allowed, tmp_path)
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_says_which_language_it_is_in(path):
    fences = re.findall(r"^ *```(\w*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(fences[::2]) <= {"python", "console", "text", "json"}
    assert set(fences[1::2]) <= {""}


@pytest.mark.parametrize("package", ["spec", *FRAMEWORKS_OF])
def test_every_package_has_a_readme_with_a_block_that_runs(package):
    assert any(block.path.parent.name == package for block in PYTHON)


def _nox_would_run(arguments):
    listed = subprocess.run(["nox", "--list", *arguments], cwd=ROOT, capture_output=True)
    return listed.returncode == 0


def test_nox_would_not_run_a_session_that_does_not_exist():
    assert _nox_would_run(["-s", "parity"])
    assert not _nox_would_run(["-s", "purity"])


@pytest.mark.parametrize(("block", "command"), COMMANDS, ids=lambda x: str(x))
def test_the_command_exists(block, command):
    program, *arguments = shlex.split(command)
    match program:
        case "nox":
            assert _nox_would_run(arguments)
        case "pip":
            assert arguments[0] == "install"
            for argument in arguments[1:]:
                folder = ROOT / re.sub(r"\[.*\]$", "", argument)
                local = argument.startswith("./") and (folder / "pyproject.toml").is_file()
                assert local or argument == "nox", f"{argument} is neither a package here nor nox"
        case "python":
            assert arguments[0] == "-m" or (ROOT / arguments[0]).is_file()
        case "git":
            assert arguments[0] in ("tag", "push")
        case _:
            pytest.fail(f"what is {program}?")


NAMED_TESTS = [
    (path, *named)
    for path in DOCUMENTS
    for named in re.findall(r"`([\w/]+\.py)::(test_\w+)`", path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("path", "file", "test"), NAMED_TESTS, ids=lambda x: getattr(x, "name", x))
def test_the_test_that_is_named_exists(path, file, test):
    source = (path.parent / "tests" / file).read_text(encoding="utf-8")
    assert re.search(rf"^def {test}\(", source, re.MULTILINE)


def test_the_layer_names_a_test_for_each_row_of_its_table():
    text = (ROOT / "packages" / "linattn-keras" / "README.md").read_text(encoding="utf-8")
    rows = text.partition("## What is shown")[2].partition("|---|---|\n")[2].splitlines()
    rows = [row for row in rows if row.startswith("|")]
    named = [test for path, _, test in NAMED_TESTS if path.parent.name == "linattn-keras"]
    assert len(rows) == len(named) == len(set(named)) == 12


def test_the_continuous_integration_runs_the_test_command_of_the_readme():
    (command,) = (
        line.partition("#")[0].strip()
        for block in CONSOLE
        if block.path == ROOT / "README.md"
        for line in block.text.splitlines()
        if line.endswith("# all tests")
    )
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == command


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import torch", {"jax"}),
        ("import linattn_torch", set()),
        ("import linattn_core\nassert linattn_core.relu is None", set()),
    ],
)
def test_a_planted_fault_in_a_block_is_found(code, allowed, tmp_path):
    assert run(code, allowed, tmp_path).returncode != 0


def test_the_blocks_of_a_document_are_found(tmp_path):
    path = tmp_path / "README.md"
    path.write_text("one\n```python\nx = 1\n```\n```console\nnox\n```\n  ```python\n  y\n  ```\n")
    found = list(blocks(path, "python"))
    assert [(block.line, block.text) for block in found] == [(3, "x = 1\n"), (9, "y\n")]


def test_the_frameworks_of_a_block_are_found():
    assert frameworks("import torch.nn\nfrom jax import numpy\nimport numpy") == {"torch", "jax"}
