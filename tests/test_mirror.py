"""The backend packages mirror each other, and the NumPy package, name by name."""

import ast
import functools
import re
import shutil
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parents[1] / "packages"
# The folder of each that is written in one framework; that of Keras is its portable path.
FOLDERS = {
    "core": "linattn-core/src/linattn_core",
    "torch": "linattn-torch/src/linattn_torch",
    "jax": "linattn-jax/src/linattn_jax",
    "tf": "linattn-tf/src/linattn_tf",
    "keras": "linattn-keras/src/linattn_keras/portable",
}
BACKENDS = ("torch", "jax", "tf", "keras")

# What one framework needs and another does not, and why. Everything else is common to all of them.
DIALECT = {
    "torch": {
        # On a CPU, segments one after the other; the pass keeps what the gradient starts from.
        "_chunk.py": {
            "SEGMENT",
            "_Delta",
            "_Passed",
            "_Step",
            "_pass_states",
            "_rows",
            "_segments",
        },
        # Autograd of the whole form would keep everything, and take longer.
        "_chunk_vjp.py": {
            "the file",
            "_Incoming",
            "_Parallel",
            "_decayed_vjp",
            "_differentiate",
            "_dot",
            "_is_transformed",
            "_needs_gradient",
            "_parallel_vjp",
            "_pass_back",
            "_segment_vjp",
            "parallel_with_vjp",
        },
        "_decay_vjp.py": {
            "the file",
            "_add_per_key_vjp",
            "_add_products_vjp",
            "_batch",
            "_matrices",
            "_per_head_vjp",
            "add_decayed_products_vjp",
        },
        # Decays between blocks are products; the gradient goes through the same pairs of blocks.
        "_decay.py": {
            "BLOCK",
            "LOG2_E",
            "_BlockSums",
            "_across",
            "_assembled",
            "_block_sums",
            "_causal",
            "_pair_decays",
            "_segment_sums",
        },
        # An export leaves sizes open that Python would otherwise branch on.
        "_describe.py": {"static_size"},
        # Autocast would run the products in half precision.
        "_precision.py": {"the file", "full_precision"},
        # The inverse itself is kept for the gradient.
        "_inverse.py": {"BLOCK", "_diagonal_blocks", "invert_unit_lower"},
        # An exported program has a loop node in the place of the loop.
        "_scan.py": {"_loop_node"},
        # Each framework's own word for an array.
        "_tokens.py": {"Tensor"},
    },
    "jax": {
        # Jitted, so that an eager call compiles once and not operation by operation; and in the
        # mode "auto" a CPU runs what is faster, which depends on whether there are derivatives.
        "_attend.py": {
            "CPU_CHUNK",
            "SMALL_STATE",
            "_faster_form",
            "_faster_form_jvp",
            "_form",
            "_form_of_platform",
            "_is_faster_by_token",
            "_is_sum",
            "_length",
        },
        # Heads come before tokens chunk by chunk, which saves copies of the whole sequence.
        "_chunk.py": {"_Delta", "_by_head", "_rows", "_written"},
        # XLA on a CPU is slow at sums over few rows and at long cumulative sums.
        "_decay.py": {"_segment_sums", "_where", "repeat"},
        # So does an export with symbolic sizes.
        "_describe.py": {"static_size"},
        # The inverse has a derivative of its own, for every mode of differentiation.
        "_inverse.py": {
            "BLOCK",
            "_diagonal_blocks",
            "_inverse",
            "_inverse_by_rows",
            "_inverse_jvp",
            "_solve_jvp",
            "solve_unit_lower",
        },
        "_scan.py": {"BLOCK", "_padded", "running_sums"},
        # A GPU multiplies float32 in TF32 and a TPU in bfloat16, unless a product says otherwise.
        "_precision.py": {"the file", "einsum", "matmul"},
        "_tokens.py": {"Array"},
    },
    "tf": {
        # A loop runs over segments of chunks, and inside of one the chunks are unrolled.
        "_chunk.py": {
            "LONGEST_SEGMENT",
            "TOGETHER",
            "_Step",
            "_each",
            "_pass_chunks",
            "_segment",
            "_sum_chunks",
        },
        "_decay.py": {"BLOCK", "_causal", "_rows", "_segment_sums"},
        # The gradient of a loop would keep what its steps compute; this one computes it again.
        "_segments.py": {
            "the file",
            "Body",
            "_backward",
            "_forward",
            "_join",
            "_loop",
            "_one_by_one",
            "_pad",
            "_segment",
            "_slice",
            "first",
            "pass_segments",
        },
        # Variables and arrays are tensors to TensorFlow's users; sizes may be known only when run.
        "_describe.py": {"_as_tensor", "_is_nested", "as_tensors", "check_known", "sizes"},
        # The inverse and the solution have gradients of their own, exact to second order.
        "_inverse.py": {"_below", "invert_unit_lower", "solve_unit_lower"},
        # A loop without steps has no results to stack, so an open T gets one token of padding.
        "_recurrent.py": {"_swap", "_time_first"},
        # A loop reads its steps from arrays of tensors; tf.cumsum is slow.
        "_scan.py": {"BLOCK", "_each", "_running_sums", "running_sums"},
        # A Python number becomes a tensor of the dtype at hand; sizes are checked when known.
        "_tokens.py": {"Tensor", "number", "sized"},
    },
    "keras": {
        # A loop of keras.ops takes one tensor, so what a step needs is packed into one.
        "_chunk.py": {"_rows", "_swap", "_transition", "_written"},
        "_decay.py": {"_causal"},
        # Any backend's tensors, and what each of them leaves open.
        "_describe.py": {
            "Tensor",
            "_known",
            "as_tensor",
            "check_known",
            "check_rank",
            "dtype_name",
            "sizes",
            "static_size",
        },
        # There is no custom gradient.
        "_inverse.py": {"_inverse", "solve_unit_lower"},
        # A loop's results are like its state: the states, which are read afterwards.
        "_recurrent.py": {"_swap", "_write"},
        # Sums of chunk states that keep the dtype on every backend.
        "_scan.py": {"_add", "running_sums", "total"},
        "_tokens.py": {"append_tokens", "number", "transpose"},
    },
}

# What one of them does without, and why.
ABSENT = {
    "keras": {
        # It is no distribution of its own.
        "__init__.py": {"__version__"},
        # The form for one decay per key serves the one per head as well.
        "_decay.py": {"_per_head"},
    },
}


def source(packages, name):
    return packages / FOLDERS[name]


def functions(path):
    """The functions of a module by name: their parameters, with kinds and defaults."""
    return _functions(path.read_text(encoding="utf-8"))


@functools.cache
def _functions(text):
    return {
        node.name: _parameters(node.args)
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }


def _parameters(arguments):
    assert not arguments.posonlyargs
    positional = [parameter.arg for parameter in arguments.args]
    defaults = [ast.unparse(default) for default in arguments.defaults]
    keywords = {
        parameter.arg: default and ast.unparse(default)
        for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    }
    return positional, defaults, list(keywords.items())


def exported(packages, name):
    """`__all__`, by the module that each name comes from."""
    origin, names = {}, None
    for node in ast.parse((source(packages, name) / "__init__.py").read_text()).body:
        if isinstance(node, ast.ImportFrom):
            origin |= {alias.name: node.module.rpartition(".")[2] for alias in node.names}
        elif isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            names = ast.literal_eval(node.value)
    return {name: origin[name] for name in names}


def public_functions(packages, name):
    folder = source(packages, name)
    return {
        operator: (module, functions(folder / f"{module}.py")[operator])
        for operator, module in exported(packages, name).items()
    }


def differences(packages):
    """What keeps the packages from mirroring each other, one sentence each."""
    # NumPy has no automatic differentiation, so its gradients are functions of their own.
    operators = {
        operator: where
        for operator, where in public_functions(packages, "core").items()
        if not operator.endswith("_vjp")
    }
    for name in BACKENDS:
        found = public_functions(packages, name)
        for operator in sorted(operators.keys() | found.keys()):
            ours, theirs = operators.get(operator), found.get(operator)
            if ours != theirs:
                yield f"linattn_{name}.{operator} is {theirs}, linattn_core has {ours}"
    names = {name: _names(source(packages, name), DIALECT[name]) for name in BACKENDS}
    for file in sorted({file for files in names.values() for file in files}):
        for function in sorted({x for files in names.values() for x in files.get(file, ())}):
            lacking = [
                name
                for name in BACKENDS
                if function not in names[name].get(file, ())
                and function not in ABSENT.get(name, {}).get(file, ())
            ]
            if lacking:
                yield f"{file}: {function} is not in linattn_{' nor linattn_'.join(lacking)}"


def _names(folder, dialect):
    """What each file defines, and the file itself, without what is declared as dialect."""
    assert folder.is_dir()
    return {
        path.name: {"the file", *_defined(path)} - dialect.get(path.name, set())
        for path in folder.glob("*.py")
    }


def _defined(path):
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets)


def test_the_packages_mirror_each_other():
    found = list(differences(PACKAGES))
    assert not found, "\n".join(found)


def test_what_is_declared_as_dialect_exists_and_is_not_common():
    found = {name: _names(source(PACKAGES, name), {}) for name in BACKENDS}
    for name, files in DIALECT.items():
        for file, declared in files.items():
            assert declared <= found[name][file], f"linattn_{name}/{file}"
            common = set.intersection(*(names.get(file, set()) for names in found.values()))
            assert not declared & common, f"linattn_{name}/{file}"


def test_what_is_declared_as_absent_is_absent_and_common_to_the_others():
    found = {name: _names(source(PACKAGES, name), {}) for name in BACKENDS}
    for name, files in ABSENT.items():
        for file, declared in files.items():
            assert not declared & found[name][file], f"linattn_{name}/{file}"
            for other in set(BACKENDS) - {name}:
                assert declared <= found[other][file], f"linattn_{other}/{file}"


@pytest.fixture
def copy(tmp_path):
    for name in ("core", *BACKENDS):
        shutil.copytree(source(PACKAGES, name), source(tmp_path, name))
    return tmp_path


def _edit(path, pattern, replacement):
    text = path.read_text(encoding="utf-8")
    edited, count = re.subn(pattern, replacement, text, count=1)
    assert count == 1
    path.write_text(edited, encoding="utf-8")


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(
    ("file", "pattern", "replacement", "named"),
    [
        (
            "linear_attention.py",
            r"chunk_size: int = 64",
            "chunk_size: int = 32",
            "linear_attention",
        ),
        ("linear_attention.py", r"    \*,\n", "", "linear_attention"),
        ("kernelized_attention.py", r"epsilon: float", "eps: float", "kernelized_attention"),
        ("feature_maps.py", r"(def relu\(.*)epsilon: float = 1e-6", r"\1epsilon: float", "relu"),
        ("_attend.py", r"def attend\(", "def fused_attend(", "attend"),
        ("__init__.py", r'    "relu",\n', "", "relu"),
    ],
)
def test_a_planted_difference_is_found(copy, name, file, pattern, replacement, named):
    before = set(differences(copy))
    _edit(source(copy, name) / file, pattern, replacement)
    planted = set(differences(copy)) - before
    assert planted
    assert all(named in line for line in planted)
    assert any(f"linattn_{name}" in line for line in planted)


def test_the_keras_operators_take_the_same_arguments_and_native():
    folder = PACKAGES / "linattn-keras" / "src" / "linattn_keras" / "ops"
    found = {}
    for path in folder.glob("[!_]*.py"):
        found |= functions(path)
    expected = {}
    for operator, (_, (positional, defaults, keywords)) in public_functions(
        PACKAGES, "core"
    ).items():
        if operator.endswith("_vjp"):
            continue
        if keywords:
            keywords = [*keywords, ("native", "None")]
        else:
            positional, defaults = [*positional, "native"], [*defaults, "None"]
        expected[operator] = positional, defaults, keywords
    assert found == expected


@pytest.mark.parametrize("name", BACKENDS)
def test_a_file_that_only_one_package_has_is_found(copy, name):
    (source(copy, name) / "fused.py").write_text("")
    others = " nor ".join(f"linattn_{other}" for other in BACKENDS if other != name)
    assert f"fused.py: the file is not in {others}" in differences(copy)
