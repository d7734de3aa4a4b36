"""There is one version, and every package asks for exactly that version of the others."""

import importlib.metadata
import importlib.util
import re
import shutil
import tomllib
from datetime import date
from itertools import chain
from pathlib import Path

import pytest

import linattn_spec

ROOT = Path(__file__).resolve().parents[1]
VERSION = linattn_spec.__version__


def _noxfile():
    spec = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def projects(root):
    paths = [root / "spec" / "pyproject.toml", *(root / "packages").glob("*/pyproject.toml")]
    return {path.parent: tomllib.loads(path.read_text())["project"] for path in paths}


def stated_versions(root):
    """Every place that states the version, and what it states."""
    for folder, project in projects(root).items():
        name = project["name"]
        yield f"{name} pyproject.toml", project["version"]
        (module,) = (folder / "src").glob("linattn_*/__init__.py")
        text = module.read_text(encoding="utf-8")
        yield f"{name} __version__", re.search(r'^__version__ = "(.*)"$', text, re.M)[1]
        requirements = [
            *project["dependencies"],
            *chain(*project.get("optional-dependencies", {}).values()),
        ]
        for requirement in requirements:
            if requirement.startswith("linattn"):
                yield f"{name} needs {requirement}", requirement.partition("==")[2]
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    yield "CHANGELOG.md", re.search(r"^## (\d\S*)", changelog, re.M)[1]


def disagreements(root, version):
    return [place for place, stated in stated_versions(root) if stated != version]


def test_all_versions_and_pins_agree():
    places = dict(stated_versions(ROOT))
    # pyproject.toml and __version__ of each, the three pins of the backends, the changelog.
    assert len(places) >= 2 * len(projects(ROOT)) + 3 + 1
    assert not disagreements(ROOT, VERSION)


def test_the_installed_packages_have_the_version():
    for project in projects(ROOT).values():
        assert importlib.metadata.version(project["name"]) == VERSION


@pytest.fixture
def copy(tmp_path):
    shutil.copy(ROOT / "CHANGELOG.md", tmp_path)
    for folder in projects(ROOT):
        target = tmp_path / folder.relative_to(ROOT)
        (module,) = (folder / "src").glob("linattn_*/__init__.py")
        (target / module.relative_to(folder)).parent.mkdir(parents=True)
        shutil.copy(folder / "pyproject.toml", target)
        shutil.copy(module, target / module.relative_to(folder))
    return tmp_path


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("packages/linattn-jax/pyproject.toml", 'version = "', 'version = "9'),
        ("packages/linattn-jax/pyproject.toml", "linattn-core==", "linattn-core>="),
        ("packages/linattn-tf/pyproject.toml", "linattn-core==", "linattn-core==9"),
        (
            "packages/linattn-core/src/linattn_core/__init__.py",
            '__version__ = "',
            '__version__ = "9',
        ),
        ("CHANGELOG.md", f"## {VERSION}", "## 0.0.1"),
    ],
)
def test_a_planted_disagreement_is_found(copy, file, old, new):
    text = (copy / file).read_text(encoding="utf-8")
    assert old in text
    (copy / file).write_text(text.replace(old, new), encoding="utf-8")
    assert len(disagreements(copy, VERSION)) == 1


def test_bump_sets_every_version_and_dates_the_changelog(copy):
    _noxfile().set_version(copy, "9.8.7", date(2040, 2, 1))
    assert not disagreements(copy, "9.8.7")
    assert "## Unreleased\n\n## 9.8.7 – 2040-02-01\n" in (copy / "CHANGELOG.md").read_text()
