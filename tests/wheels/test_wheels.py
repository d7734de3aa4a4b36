"""The wheels in dist/ hold what they should, and each works in a clean environment."""

import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {
    path.parent.name if path.parent.name != "spec" else "linattn-spec": path.parent
    for path in [ROOT / "spec" / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml")]
}
FRAMEWORKS = {"jax", "keras", "tensorflow", "torch"}

TRY = {
    "linattn-spec": """
from linattn_spec.fixtures import fixtures_directory, load_cases
assert fixtures_directory().name == "fixtures_data"
assert len(load_cases()) > 300
""",
    "linattn-core": """
import numpy as np
from linattn_core import linear_attention
x = np.ones((1, 3, 2, 4))
output, state = linear_attention(x, x, x)
assert state.shape == (1, 2, 4, 4)
""",
    "linattn-torch": """
import torch
from linattn_torch import linear_attention
x = torch.ones((1, 3, 2, 4))
output, state = linear_attention(x, x, x)
assert state.shape == (1, 2, 4, 4)
""",
    "linattn-jax": """
import jax.numpy as jnp
from linattn_jax import linear_attention
x = jnp.ones((1, 3, 2, 4))
output, state = linear_attention(x, x, x)
assert state.shape == (1, 2, 4, 4)
""",
    "linattn-keras": """
import os
os.environ["KERAS_BACKEND"] = "torch"
import keras
from linattn_keras import LinearAttention
layer = LinearAttention(num_heads=2, key_dim=4, causal=True, native=NATIVE)
output, state = layer(keras.ops.ones((1, 3, 5)), return_state=True)
assert output.shape == (1, 3, 5) and state[0].shape == (1, 2, 4, 4)
""",
    "linattn-tf": """
import tensorflow as tf
from linattn_tf import linear_attention
x = tf.ones((1, 3, 2, 4))
output, state = linear_attention(x, x, x)
assert state.shape == (1, 2, 4, 4)
""",
}


def wheel(package):
    (path,) = (ROOT / "dist").glob(f"{package.replace('-', '_')}-*.whl")
    return path


def contents(package):
    with zipfile.ZipFile(wheel(package)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def expected(folder):
    """What the wheel holds besides its metadata: the source, and the spec's texts and fixtures."""
    files = {}
    for pattern in ("*.py", "*.json", "py.typed"):
        for path in (folder / "src").rglob(pattern):
            files[path.relative_to(folder / "src").as_posix()] = path.read_bytes()
    if folder.name == "spec":
        for data, name in (("fixtures", "fixtures_data"), ("math", "math")):
            for path in (folder / data).rglob("*"):
                if path.is_file():
                    relative = path.relative_to(folder / data).as_posix()
                    files[f"linattn_spec/{name}/{relative}"] = path.read_bytes()
    return files


def test_there_is_a_wheel_of_each_package_and_no_other():
    assert len(list((ROOT / "dist").iterdir())) == len(FOLDERS)
    assert {wheel(package).name.partition("-")[0] for package in FOLDERS} == {
        package.replace("-", "_") for package in FOLDERS
    }


@pytest.mark.parametrize("package", FOLDERS)
def test_the_wheel_holds_the_package_and_nothing_else(package):
    found = {name: data for name, data in contents(package).items() if ".dist-info/" not in name}
    wanted = expected(FOLDERS[package])
    assert found.keys() == wanted.keys()
    assert all(found[name] == data for name, data in wanted.items())


def test_the_wheel_of_the_spec_holds_the_mathematics_and_the_fixtures():
    names = contents("linattn-spec").keys()
    assert "linattn_spec/math/linear_attention.md" in names
    assert "linattn_spec/fixtures_data/index.sha256" in names
    assert sum(name.endswith(".safetensors") for name in names) > 300


@pytest.mark.parametrize("package", FOLDERS)
def test_the_metadata_is_that_of_the_project(package):
    (metadata,) = (
        data.decode()
        for name, data in contents(package).items()
        if name.endswith(".dist-info/METADATA")
    )
    project = tomllib.loads((FOLDERS[package] / "pyproject.toml").read_text())["project"]
    header = metadata.partition("\n\n")[0].splitlines()
    assert f"Version: {project['version']}" in header
    assert "License-Expression: Apache-2.0" in header
    required = [line.removeprefix("Requires-Dist: ") for line in header if "extra ==" not in line]
    assert {x.replace("_", "-") for x in project["dependencies"]} <= set(required)


class Environment:
    """A clean environment: what is installed into it comes from dist/ or under the constraints."""

    def __init__(self, folder):
        venv.create(folder)
        self.python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        self.folder = folder
        self.pip = [sys.executable, "-m", "pip", f"--python={self.python}"]

    def install(self, *requirements):
        constraints = f"--constraint={ROOT / 'constraints.txt'}"
        links = f"--find-links={ROOT / 'dist'}"
        command = [*self.pip, "install", "--no-compile", constraints, links, *requirements]
        subprocess.run(command, check=True)

    def frameworks(self):
        frozen = subprocess.run([*self.pip, "freeze"], check=True, capture_output=True, text=True)
        lines = frozen.stdout.splitlines()
        return FRAMEWORKS & {line.replace(" @ ", "==").partition("==")[0] for line in lines}

    def run(self, code, **names):
        lines = [f"{name} = {value!r}" for name, value in names.items()]
        script = "\n".join([*lines, code])
        return subprocess.run(
            [self.python, "-c", script], cwd=self.folder, capture_output=True, text=True
        )


@pytest.mark.parametrize("package", sorted(TRY.keys() - {"linattn-keras"}))
def test_the_wheel_works_in_a_clean_environment_and_brings_only_its_framework(package, tmp_path):
    environment = Environment(tmp_path)
    environment.install(wheel(package))
    process = environment.run(TRY[package])
    assert process.returncode == 0, process.stderr
    project = tomllib.loads((FOLDERS[package] / "pyproject.toml").read_text())["project"]
    required = " ".join(project["dependencies"])
    expected = {name for name in FRAMEWORKS if name in required}
    if "tensorflow" in expected:
        expected.add("keras")  # TensorFlow's own installation has Keras in it
    assert environment.frameworks() == expected


def test_the_layer_works_without_a_native_package_and_with_it_as_an_extra(tmp_path):
    environment = Environment(tmp_path)
    environment.install(wheel("linattn-keras"), "torch")
    assert environment.frameworks() == {"keras", "torch"}
    process = environment.run(TRY["linattn-keras"], NATIVE=None)
    assert process.returncode == 0, process.stderr
    refused = environment.run(TRY["linattn-keras"], NATIVE=True)
    assert "ImportError: native=True needs linattn-torch, which is not installed" in refused.stderr
    environment.install(f"{wheel('linattn-keras')}[torch]")
    assert environment.frameworks() == {"keras", "torch"}
    process = environment.run(TRY["linattn-keras"], NATIVE=True)
    assert process.returncode == 0, process.stderr


def test_every_package_is_tried():
    assert TRY.keys() == FOLDERS.keys()
