"""The fixtures are complete and readable, and a damaged folder is refused with one clear error."""

import hashlib
import json
import re
import shutil
from fractions import Fraction
from pathlib import Path

import jsonschema
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from linattn_spec.fixtures import FixtureError, fixtures_directory, load_cases
from linattn_spec.safetensors_format import DTYPES, decode, encode
from linattn_spec.tolerances import ACCUMULATION, GRADIENT, UNIT_ROUNDOFF, VALUE

FOLDER = fixtures_directory()
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())
FLAGS = json.loads((FOLDER / "flags.json").read_text())
CASES = load_cases()
VALUE_CASES = [case for case in CASES if case.error is None]
FILES = sorted((FOLDER / "cases").iterdir())


def header(data):
    start = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:start]), data[start:]


def file(entries, data=b""):
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


# --- the manifest


def test_the_manifest_follows_its_schema_which_allows_nothing_else():
    schema = json.loads((FOLDER / "manifest.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(MANIFEST)
    surplus = {"cases": [MANIFEST["cases"][0] | {"colour": "red"}]}
    assert not validator.is_valid(surplus)
    lacking = {name: x for name, x in MANIFEST["cases"][0].items() if name != "summary"}
    assert not validator.is_valid({"cases": [lacking]})


def test_every_case_has_its_own_id_and_every_file_belongs_to_a_case():
    ids = [case["id"] for case in MANIFEST["cases"]]
    assert len(set(ids)) == len(ids) == len(CASES)
    assert {path.stem for path in FILES} == set(ids)


def test_every_flag_is_explained_and_used():
    assert {flag for case in CASES for flag in case.flags} == set(FLAGS)
    for flag in FLAGS.values():
        assert set(flag) == {"fault", "report"}
        assert flag["fault"].endswith(".")
        assert flag["report"] is None or re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", flag["report"])


def test_every_flag_that_a_value_case_can_catch_is_on_two_of_them():
    for flag in set(FLAGS) - {"bad-input"}:
        assert sum(flag in case.flags for case in VALUE_CASES) >= 2, flag


def test_the_version_lists_hold_what_they_name():
    everything = {case.id for case in CASES}
    assert {case.id for case in load_cases("linattn-1")} == everything
    onnx = load_cases("onnx-27")
    assert {case.operator for case in onnx} == {"onnx_linear_attention"}
    assert sum(case.id.startswith("onnx-example-") for case in onnx) == 17
    assert {case.operator for case in load_cases("proposals")} == {"kernelized_attention"}


def test_the_index_has_the_hash_of_every_generated_file():
    lines = (FOLDER / "index.sha256").read_text().splitlines()
    index = {path: digest for digest, path in (line.split("  ") for line in lines)}
    present = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    assert set(index) == present - {"index.sha256", "README.md"}
    for path, digest in index.items():
        assert hashlib.sha256((FOLDER / path).read_bytes()).hexdigest() == digest


def test_the_folder_stays_small():
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 6_000_000


# --- what the cases hold


def gradients_wanted(case):
    if case.id.startswith("onnx-example-"):
        return set()
    return {name for name, x in case.inputs.items() if x.dtype in FLOATS}


FLOATS = {np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16)} | {
    np.dtype(ml_dtypes.bfloat16)
}


def test_every_value_case_has_finite_results_and_a_gradient_for_every_float_input():
    for case in VALUE_CASES:
        assert case.outputs, case.id
        assert set(case.gradients) == gradients_wanted(case), case.id
        assert set(case.cotangents) == (set(case.outputs) if case.gradients else set()), case.id
        assert set(case.tolerances) == set(case.outputs) | {f"gradient.{n}" for n in case.gradients}
        for name, gradient in case.gradients.items():
            assert gradient.shape == case.inputs[name].shape, case.id
        for oracle in (*case.outputs.values(), *case.gradients.values()):
            assert np.all(np.isfinite(oracle)), case.id


def test_no_oracle_is_rounding_noise():
    for case in VALUE_CASES:
        for name, oracle in (case.outputs | case.gradients).items():
            largest = np.max(np.abs(oracle), initial=0.0)
            assert largest == 0 or largest > 1e-10, (case.id, name, largest)


def test_a_refused_case_holds_inputs_and_an_error_only():
    refused = [case for case in CASES if case.error is not None]
    for case in refused:
        for tensors in (case.outputs, case.gradients, case.cotangents, case.tolerances):
            assert not tensors, case.id
        text = re.search("^Refused: (.*)", case.summary, re.DOTALL)[1]
        assert re.search(case.error[1], text), case.id
        assert not re.search(case.error[1], f"{text}0"), case.id
    assert len(refused) >= 130


def test_cotangents_are_exact_in_every_dtype():
    for case in VALUE_CASES:
        for cotangent in case.cotangents.values():
            for dtype in (np.float16, ml_dtypes.bfloat16):
                np.testing.assert_array_equal(cotangent, cotangent.astype(dtype).astype(float))


def test_all_sizes_of_a_case_differ():
    """Hk may equal Hv, and another size may be 0 or 1 in the cases of short sequences."""
    for case in VALUE_CASES:
        if case.operator not in ("linear_attention", "kernelized_attention"):
            continue
        B, T, Hq, Dk = case.inputs["query"].shape
        Hv, Dv = case.inputs["value"].shape[2:]
        sizes = [B, T, Hq, Hv, Dk, Dv]
        if "length" in case.id or "batch-0" in case.id:
            sizes = [Hq, Hv, Dk, Dv]
        if "grouped-keys" in case.id:
            sizes.remove(Hq)  # it is about Hk, so Hq is Hv
            assert case.inputs["key"].shape[2] not in (1, Hv)
        assert len(set(sizes)) == len(sizes), (case.id, sizes)


def test_the_delta_rules_stay_in_their_domain():
    for case in VALUE_CASES:
        if case.operator == "linear_attention" and "beta" in case.inputs:
            beta, key = (case.inputs[name].astype(float) for name in ("beta", "key"))
            keep = case.inputs.get("mask", np.ones(key.shape[:2], bool))
            squares = np.sum(key[keep] ** 2, axis=-1)
            assert np.all(beta[keep].max(-1, initial=0) * squares.max(-1, initial=0) <= 2), case.id


DECAYS = {
    "0": lambda g: np.all(g == 0),
    "-0.01": lambda g: np.all((g <= -0.01) & (g >= -0.0126)),
    "-1": lambda g: np.all((g <= -1) & (g >= -1.26)),
    "-20": lambda g: np.all((g <= -20) & (g >= -25.1)),
    "-1e4": lambda g: np.all((g <= -1e4) & (g >= -1.26e4)),
    "-inf": lambda g: np.all(g == -np.inf),
    "resets": lambda g: 0 < np.sum(g == -np.inf) < g.size,
    "exact zeros mixed in": lambda g: 0.2 < np.mean(g == 0) < 0.8,
    "half -1e-3, half -1e7": lambda g: (
        0.3 < np.mean(g < -1e6) < 0.7 < np.mean((g < -1e6) | (g > -1))
    ),
    "-90 first": lambda g: np.all(g[:, 0, 0] == -90) and np.all(g[:, 1:, 0] > -0.1),
    "-90 last": lambda g: np.all(g[:, -1, 0] == -90) and np.all(g[:, :-1, 0] > -0.1),
}


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rule", ["gated", "gated_delta"])
def test_every_decay_is_there_with_a_state_and_more_than_two_chunks(rule, dtype, decay):
    assert any(
        case.arguments.get("update_rule") == rule
        and case.dtype == dtype
        and "initial_state" in case.inputs
        and case.inputs["query"].shape[1] > 2 * case.arguments["chunk_size"]
        and DECAYS[decay](case.inputs["log_decay"].astype(float))
        for case in VALUE_CASES
        if case.operator == "linear_attention" and case.inputs["query"].size
    )


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_every_rule_has_every_length_around_a_chunk_and_every_dtype(rule):
    cases = [
        case
        for case in VALUE_CASES
        if case.operator == "linear_attention" and case.arguments["update_rule"] == rule
    ]
    assert {case.dtype for case in cases} == set(VALUE)
    lengths = {c.inputs["query"].shape[1] for c in cases if c.arguments["chunk_size"] == 4}
    assert lengths >= {0, 1, 3, 4, 5, 11}


def test_every_ratio_of_query_heads_to_value_heads_is_there():
    heads = [
        (case.inputs["query"].shape[2], case.inputs["value"].shape[2])
        for case in VALUE_CASES
        if case.operator == "linear_attention"
    ]
    assert {Fraction(*pair) for pair in heads} >= {1, 2, 4, 8, Fraction(1, 3)}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rule", ["delta", "gated_delta"])
@pytest.mark.parametrize("keys", ["non-negative", "near-identical", "repeated-beta-1-9"])
def test_every_kind_of_keys_is_there_over_a_whole_chunk(keys, rule, dtype):
    id = f"linear-attention-{rule.replace('_', '-')}-keys-{keys}-{dtype}"
    (case,) = [case for case in VALUE_CASES if case.id == id]
    assert case.inputs["key"].shape[1] > case.arguments["chunk_size"] == 64


def result_dtype(case, name):
    if name == "present_state":
        return str(case.inputs.get("past_state", case.inputs["query"]).dtype)
    return ACCUMULATION[case.dtype] if name.startswith("final_state") else case.dtype


def test_tolerances_are_the_tables_or_argued():
    argued = []
    for case in VALUE_CASES:
        table = {name: VALUE[result_dtype(case, name)] for name in case.outputs}
        table |= {f"gradient.{n}": GRADIENT[str(case.inputs[n].dtype)] for n in case.gradients}
        if case.tolerance_reason is None:
            assert case.tolerances == table, case.id
        else:
            argued.append(case)
    assert len(argued) == 2
    for case in argued:
        key = case.inputs["key"].astype(float)[0, :64, 0]
        beta = case.inputs["beta"].astype(float)[0, :64, 0]
        lower = np.tril(beta[:, None] * (key @ key.T), -1)
        measured = np.linalg.cond(np.eye(64) + lower)
        conditioning = case.tolerances["output"] / UNIT_ROUNDOFF[case.dtype]
        assert 0.98 * conditioning < measured <= conditioning
        assert f"condition number {conditioning:.0f}" in case.tolerance_reason


# --- reading


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_safetensors_library_reads_the_same(path):
    ours, theirs = decode(path.read_bytes()), safetensors.numpy.load_file(path)
    assert set(ours) == set(theirs)
    for name, tensor in ours.items():
        assert (tensor.dtype, tensor.shape) == (theirs[name].dtype, theirs[name].shape)
        assert tensor.tobytes() == theirs[name].tobytes()


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)], ids=str)
def test_what_is_written_is_read_back(dtype, shape):
    tensors = {"x": np.ones(shape, dtype), "a": np.zeros((5,), dtype)}
    back = decode(encode(tensors))
    for name, tensor in tensors.items():
        assert (back[name].dtype, back[name].shape) == (dtype, shape if name == "x" else (5,))
        np.testing.assert_array_equal(back[name], tensor)


def test_the_bytes_depend_on_the_tensors_alone():
    x, y = np.arange(6.0).reshape(2, 3), np.arange(3)
    assert encode({"x": x, "y": y}) == encode({"y": y.copy(), "x": np.asfortranarray(x)})
    entries, _ = header(encode({"y": y, "x": x}))
    assert list(entries) == ["x", "y"]


def test_the_reader_in_the_readme_reads_every_file():
    (code,) = re.findall(
        r"```python\n(import json\n.*?)```", (FOLDER / "README.md").read_text(), re.S
    )
    namespace = {}
    exec(code, namespace)
    for path in FILES:
        ours, theirs = decode(path.read_bytes()), namespace["read"](path)
        assert set(ours) == set(theirs)
        for name, tensor in ours.items():
            expected = tensor.astype(np.float32) if tensor.dtype.name == "bfloat16" else tensor
            assert expected.dtype == theirs[name].dtype
            np.testing.assert_array_equal(expected, theirs[name])


DAMAGED = {
    "empty": b"",
    "cut in the length": encode({"x": np.ones(3)})[:5],
    "cut in the header": encode({"x": np.ones(3)})[:20],
    "cut in the data": encode({"x": np.ones(3)})[:-1],
    "data too long": encode({"x": np.ones(3)}) + b"\0",
    "length beyond the file": (2**63).to_bytes(8, "little") + b"{}",
    "no json": file(b"{'x'"),
    "no text": file(b"\xff\xfe"),
    "no object": file([1]),
    "entry is no object": file({"x": 3}),
    "entry lacks a shape": file({"x": {"dtype": "F32", "data_offsets": [0, 4]}}, bytes(4)),
    "metadata": file({"__metadata__": {"format": "np"}}),
    "unknown dtype": file({"x": entry("F8_E4M3")}, bytes(4)),
    "dtype is no text": file({"x": entry(["F32"])}, bytes(4)),
    "shape larger than the bytes": file({"x": entry(shape=(2,))}, bytes(4)),
    "shape of huge numbers": file({"x": entry(shape=(2**40, 2**40))}, bytes(4)),
    "negative shape": file({"x": entry(shape=(-1,))}, bytes(4)),
    "shape of fractions": file({"x": entry(shape=(1.0,))}, bytes(4)),
    "shape of booleans": file({"x": entry(shape=(True,))}, bytes(4)),
    "negative offset": file({"x": entry(offsets=(-4, 0))}, bytes(4)),
    "backward offsets": file({"x": entry(offsets=(4, 0))}, bytes(4)),
    "three offsets": file({"x": entry(offsets=(0, 4, 8))}, bytes(8)),
    "offset beyond the file": file({"x": entry(offsets=(0, 4))}, bytes(3)),
    "gap": file({"x": entry(), "y": entry(offsets=(8, 12))}, bytes(12)),
    "gap at the front": file({"x": entry(offsets=(4, 8))}, bytes(8)),
    "overlap": file({"x": entry(), "y": entry(offsets=(0, 4))}, bytes(4)),
    "name twice": file(
        f'{{"x": {json.dumps(entry())}, "x": {json.dumps(entry())}}}'.encode(), bytes(4)
    ),
    "boolean of 2": file({"x": entry("BOOL", offsets=(0, 1))}, b"\2"),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_damaged_bytes_are_refused_by_name(data):
    with pytest.raises(FixtureError, match=r"^broken\.safetensors: "):
        decode(data, "broken.safetensors")


@pytest.fixture
def copy(tmp_path):
    """A copy of the folder with one case, hashed anew, to damage."""
    shutil.copytree(FOLDER, tmp_path / "fixtures", ignore=shutil.ignore_patterns("*.safetensors"))
    folder = tmp_path / "fixtures"
    case = MANIFEST["cases"][0]
    shutil.copy(FOLDER / case["file"], folder / case["file"])
    (folder / "manifest.json").write_text(json.dumps({"cases": [case]}))
    (folder / "versions.json").write_text(json.dumps({"linattn-1": [case["id"]]}))
    hash_anew(folder)
    return folder


def hash_anew(folder):
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != "index.sha256"]
    lines = (
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in paths
    )
    (folder / "index.sha256").write_text("".join(lines))


def change_case(folder, **changes):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["cases"][0].update(changes)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    hash_anew(folder)


def test_a_copied_folder_is_read_from_where_it_is(copy):
    (case,) = load_cases(directory=copy)
    assert case.id == CASES[0].id
    np.testing.assert_array_equal(case.outputs["output"], CASES[0].outputs["output"])


def test_a_file_that_is_not_the_one_indexed_is_refused(copy):
    path = next((copy / "cases").iterdir())
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(FixtureError, match=rf"^cases/{path.name}: sha256 is "):
        load_cases(directory=copy)


@pytest.mark.parametrize("name", ["index.sha256", "manifest.json", "versions.json"])
def test_a_missing_file_is_refused(copy, name):
    (copy / name).unlink()
    with pytest.raises(FixtureError, match=rf"^{name}: No such file"):
        load_cases(directory=copy)


def test_a_missing_case_is_refused(copy):
    path = next((copy / "cases").iterdir())
    path.unlink()
    with pytest.raises(FixtureError, match=rf"^cases/{path.name}: No such file"):
        load_cases(directory=copy)


def test_an_edited_manifest_is_refused(copy):
    path = copy / "manifest.json"
    path.write_text(path.read_text().replace("1e-12", "1e-2"))
    with pytest.raises(FixtureError, match=r"^manifest\.json: sha256 is "):
        load_cases(directory=copy)


def test_a_file_that_is_not_indexed_is_refused(copy):
    shutil.copy(next((copy / "cases").iterdir()), copy / "cases" / "other.safetensors")
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["cases"][0]["file"] = "cases/other.safetensors"
    (copy / "manifest.json").write_text(json.dumps(manifest))
    hash_anew(copy)
    index = copy / "index.sha256"
    kept = [line for line in index.read_text().splitlines() if "other" not in line]
    index.write_text("\n".join(kept))
    with pytest.raises(FixtureError, match=r"^cases/other\.safetensors: not in index\.sha256"):
        load_cases(directory=copy)


@pytest.mark.parametrize("path", ["../secret.safetensors", "cases/../../secret.safetensors"])
def test_a_path_that_leaves_the_folder_is_refused(copy, path):
    shutil.copy(next((copy / "cases").iterdir()), copy.parent / "secret.safetensors")
    change_case(copy, file=path)
    with pytest.raises(FixtureError, match="leaves the fixtures folder"):
        load_cases(directory=copy)


def test_an_absolute_path_and_a_link_out_of_the_folder_are_refused(copy):
    secret = copy.parent / "secret.safetensors"
    shutil.copy(next((copy / "cases").iterdir()), secret)
    (copy / "cases" / "link.safetensors").symlink_to(secret)
    for path in (str(secret), "cases/link.safetensors"):
        change_case(copy, file=path)
        with pytest.raises(FixtureError, match="leaves the fixtures folder"):
            load_cases(directory=copy)


def test_a_tensor_of_no_group_is_refused(copy):
    path = next((copy / "cases").iterdir())
    path.write_bytes(encode({"query": np.ones(3)}))
    hash_anew(copy)
    with pytest.raises(FixtureError, match="tensor 'query' belongs to no group"):
        load_cases(directory=copy)


def test_an_unknown_version_is_refused_and_the_known_ones_are_named():
    with pytest.raises(FixtureError, match=r"\['linattn-1', 'onnx-27', 'proposals'\], got 'foo'"):
        load_cases("foo")


def test_a_case_of_the_version_that_the_manifest_lacks_is_refused(copy):
    (copy / "versions.json").write_text(json.dumps({"linattn-1": ["no-such-case"]}))
    hash_anew(copy)
    with pytest.raises(FixtureError, match="lacks \\['no-such-case'\\]"):
        load_cases(directory=copy)


def test_the_fixtures_beside_the_module_come_before_those_of_a_checkout(tmp_path, monkeypatch):
    package = tmp_path / "site" / "linattn_spec"
    package.mkdir(parents=True)
    monkeypatch.setattr("linattn_spec.fixtures.__file__", str(package / "fixtures.py"))
    with pytest.raises(FixtureError, match="no fixtures beside"):
        fixtures_directory()
    checkout = tmp_path / "fixtures"
    checkout.mkdir()
    monkeypatch.setattr("linattn_spec.fixtures.__file__", str(package / "fixtures.py"))
    assert fixtures_directory() == Path(checkout)
    (package / "fixtures_data").mkdir()
    assert fixtures_directory() == package / "fixtures_data"
