"""Importing a package imports no framework but its own."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FRAMEWORKS = {"jax", "keras", "tensorflow", "torch"}
FAMILY = {
    "linattn_core",
    "linattn_jax",
    "linattn_keras",
    "linattn_spec",
    "linattn_tf",
    "linattn_torch",
}
WATCHED = FRAMEWORKS | FAMILY
# Where each package lies, and what it may import of those.
PACKAGES = {
    "linattn_spec": ("spec", set()),
    "linattn_core": ("packages/linattn-core", set()),
    "linattn_jax": ("packages/linattn-jax", {"linattn_core", "jax"}),
    "linattn_keras": ("packages/linattn-keras", {"linattn_core", "keras"}),
    "linattn_tf": ("packages/linattn-tf", {"linattn_core", "tensorflow"}),
    "linattn_torch": ("packages/linattn-torch", {"linattn_core", "torch"}),
}

_LIST_IMPORTED = """
import importlib, json, sys
importlib.import_module({module!r})
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""


def imported(module, path=None):
    """The top-level modules of a fresh process that has imported `module`."""
    code = _LIST_IMPORTED.format(module=module)
    process = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=path
    )
    return set(json.loads(process.stdout.splitlines()[-1]))


def stated_imports(folder):
    """The top-level modules that the source in `folder` imports, wherever the statement is."""
    modules = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                modules.add(node.module.partition(".")[0])
    return modules


@pytest.mark.parametrize("module", PACKAGES)
def test_importing_a_package_imports_no_framework_that_its_own_does_not(module):
    _, allowed = PACKAGES[module]
    # TensorFlow itself imports Keras, and what Keras finds.
    unavoidable = set().union(*(imported(name) for name in sorted(allowed)))
    assert imported(module) & WATCHED <= unavoidable | {module}
    assert allowed <= imported(module)


@pytest.mark.parametrize("module", PACKAGES)
def test_the_source_of_a_package_names_no_other_framework(module):
    folder, allowed = PACKAGES[module]
    assert stated_imports(ROOT / folder / "src") & WATCHED == allowed | {module}


def test_the_keras_package_uses_no_private_module_of_keras():
    sources = list((ROOT / "packages" / "linattn-keras" / "src").rglob("*.py"))
    assert len(sources) > 20
    assert not [path for path in sources if "keras.src" in path.read_text(encoding="utf-8")]


def test_a_planted_import_is_found(tmp_path):
    (tmp_path / "planted.py").write_text("import linattn_core\n\nimport torch\n")
    assert imported("planted", tmp_path) & WATCHED == {"linattn_core", "torch"}


def test_a_planted_import_inside_a_function_is_found(tmp_path):
    (tmp_path / "planted.py").write_text("def f():\n    from torch import nn\n    return nn\n")
    assert stated_imports(tmp_path) & WATCHED == {"torch"}
