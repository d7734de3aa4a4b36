"""The consumers pass the fixtures, report what differs, and refuse what is damaged."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from consumers import FIXTURES, MANIFEST, covered, run, sha256


def first_case(condition):
    return next(
        case
        for case in MANIFEST["cases"]
        if covered(case, "c") and case["dtype"] == "float32" and condition(case)
    )


PLAIN = first_case(lambda case: case["id"] == "linear-attention-gated-delta-float32")
PARTS = first_case(lambda case: case["parts"])
GENERATED = first_case(lambda case: "input.query" in case["generated"] and case["tokens"])


# --- success


def test_every_case_passes_and_none_is_left_out(language, consumer):
    process = run(consumer, FIXTURES)
    assert process.returncode == 0, process.stdout + process.stderr
    rows = [line.split() for line in process.stdout.splitlines()[1:]]
    passed = {(operator, dtype): int(number) for operator, dtype, number, *_ in rows}
    cases = [case for case in MANIFEST["cases"] if covered(case, language)]
    assert passed == Counter((case["operator"], case["dtype"]) for case in cases)
    assert {failed for *_, failed, _ in rows} == {"0"}


def test_a_copy_of_a_few_cases_passes(consumer, copy):
    process = run(consumer, copy(PLAIN, PARTS, GENERATED).folder)
    assert process.returncode == 0, process.stdout + process.stderr


# --- results that differ


def test_a_changed_oracle_is_reported_with_index_expected_and_got(consumer, copy):
    fixtures = copy(PLAIN)
    fixtures.overwrite("output.output", lambda data: np.float64(3.5).tobytes() + data[8:])
    fixtures.index()
    process = run(consumer, fixtures.folder)
    assert process.returncode == 1
    assert f"FAILED {PLAIN['id']}: {PLAIN['summary']}\n" in process.stdout
    assert "output[0,0,0,0]: expected 3.5, got " in process.stdout


@pytest.mark.parametrize("name", ["output.output", "output.final_state"])
@pytest.mark.parametrize("oracle", [0.0, np.nan, np.inf])
def test_no_result_agrees_with_zeros_nan_or_infinity(consumer, copy, name, oracle):
    fixtures = copy(PLAIN)
    fixtures.overwrite(name, lambda data: np.full(len(data) // 8, oracle).tobytes())
    fixtures.index()
    process = run(consumer, fixtures.folder)
    assert process.returncode == 1, process.stderr
    assert f"FAILED {PLAIN['id']}" in process.stdout


def test_a_result_that_is_not_a_number_fails(consumer, copy):
    fixtures = copy(PLAIN)
    fixtures.overwrite("input.value", lambda data: np.float32(np.nan).tobytes() + data[4:])
    fixtures.index()
    process = run(consumer, fixtures.folder)
    assert process.returncode == 1, process.stderr
    assert "got nan" in process.stdout.lower().replace("-nan", "nan")


def test_a_sampled_token_is_reported_by_its_own_index(consumer, copy):
    fixtures = copy(GENERATED)
    fixtures.overwrite("output.output", lambda data: data[:-8] + np.float64(1e6).tobytes())
    fixtures.index()
    process = run(consumer, fixtures.folder)
    assert process.returncode == 1, process.stderr
    assert f",{GENERATED['tokens'][-1]}," in process.stdout


def test_no_case_is_no_success(consumer, copy):
    refused = next(case for case in MANIFEST["cases"] if case["error"])
    assert run(consumer, copy(refused).folder).returncode == 1


# --- damaged fixtures


def refused(consumer, fixtures, reason):
    process = run(consumer, fixtures.folder)
    assert process.returncode == 2, process.stdout + process.stderr
    assert process.stderr.startswith("damaged fixtures: ")
    assert reason in process.stderr


def test_a_changed_byte_is_refused(consumer, copy):
    fixtures = copy(PLAIN)
    fixtures.overwrite("input.query", lambda data: bytes([data[0] ^ 1]) + data[1:])
    refused(consumer, fixtures, "not the indexed sha256")


def test_a_changed_manifest_is_refused(consumer, copy):
    fixtures = copy(PLAIN)
    manifest = fixtures.folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace("5e-06", "5e-02"))
    refused(consumer, fixtures, "not the indexed sha256")


def test_a_property_that_is_not_known_is_refused(consumer, copy):
    refused(consumer, copy(PLAIN | {"colour": "red"}), "unknown property colour")


def test_a_manifest_without_cases_is_no_success(consumer, copy):
    fixtures = copy(PLAIN)
    manifest = fixtures.folder / "manifest.json"
    manifest.write_text('{"x": 1}')
    fixtures.write_index({manifest.name: manifest})
    assert run(consumer, fixtures.folder).returncode in (1, 2)


@pytest.mark.parametrize("length", [0, 7, 8, 100, -1])
def test_a_truncated_file_is_refused(consumer, copy, length):
    fixtures = copy(PLAIN)
    path = fixtures.folder / PLAIN["file"]
    path.write_bytes(path.read_bytes()[:length])
    fixtures.index()
    refused(consumer, fixtures, PLAIN["id"])


@pytest.mark.parametrize(
    ("true", "lie", "reason"),
    [
        (b'"dtype":"F32"', b'"dtype":"F31"', "unknown dtype F31"),
        (b'"data_offsets":[0,', b'"data_offsets":[8,', ""),
        (b'"shape":[', b'"shape":[9', "bytes"),
        (b"{", b"[", ""),
    ],
    ids=["dtype", "offsets", "shape", "json"],
)
def test_a_header_that_lies_is_refused(consumer, copy, true, lie, reason):
    fixtures = copy(PLAIN)
    path = fixtures.folder / PLAIN["file"]
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = data[8:start].replace(true, lie, 1)
    assert header != data[8:start]
    path.write_bytes(len(header).to_bytes(8, "little") + header + data[start:])
    fixtures.index()
    refused(consumer, fixtures, reason)


@pytest.mark.parametrize("leaves", ["../outside.safetensors", "cases/../../outside.safetensors"])
def test_a_path_that_leaves_the_folder_is_refused(consumer, copy, leaves):
    fixtures = copy(PLAIN)
    fixtures.cases[0]["file"] = leaves
    (fixtures.folder / leaves).write_bytes((FIXTURES / PLAIN["file"]).read_bytes())
    fixtures.index()
    manifest = fixtures.folder / "manifest.json"
    outside = fixtures.folder / leaves
    fixtures.write_index({"manifest.json": manifest, leaves: outside})
    refused(consumer, fixtures, leaves)


def test_an_absolute_path_is_refused(consumer, copy):
    fixtures = copy(PLAIN)
    path = str(fixtures.folder / PLAIN["file"])
    fixtures.cases[0]["file"] = path
    fixtures.index()
    fixtures.write_index({"manifest.json": fixtures.folder / "manifest.json", path: Path(path)})
    refused(consumer, fixtures, path)


def test_a_folder_that_is_not_there_is_refused(consumer, tmp_path):
    process = run(consumer, tmp_path / "nothing")
    assert process.returncode == 2
    assert "index.sha256" in process.stderr


# --- generated tensors


def test_a_generated_tensor_with_another_hash_is_refused(consumer, copy):
    fixtures = copy(GENERATED)
    recipe = fixtures.cases[0]["generated"]["input.query"]
    recipe["sha256"] = sha256(recipe["sha256"].encode())
    fixtures.index()
    refused(consumer, fixtures, "another sha256")


def fmix(x):
    x = np.uint32(x)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))


def generated(dtype, shape, seed, offset, exponent):
    with np.errstate(over="ignore"):
        h = fmix(np.arange(np.prod(shape), dtype=np.uint32) + fmix(seed))
    x = ((h >> np.uint32(24)).astype(np.float64) + offset) * 2.0**exponent
    if dtype == "BF16":
        return (x.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return x.astype({"F64": "<f8", "F32": "<f4", "F16": "<f2"}[dtype]).tobytes()


@pytest.mark.parametrize("dtype", ["F64", "F32", "F16", "BF16"])
def test_the_generator_gives_the_bytes_of_numpy_in_every_dtype(consumer, copy, dtype):
    shape = GENERATED["generated"]["input.query"]["shape"]
    recipes = [(0, -128, -24), (1, 0, -20), (2**32 - 1, -255, -14), (2**31, -128, -6), (7, -128, 7)]
    fixtures = copy(*[GENERATED] * len(recipes))
    for number, (case, recipe) in enumerate(zip(fixtures.cases, recipes, strict=True)):
        digest = sha256(generated(dtype, shape, *recipe))
        names = dict(zip(("seed", "offset", "exponent"), recipe, strict=True))
        case["generated"]["input.query"] = {
            "dtype": dtype,
            "shape": shape,
            **names,
            "sha256": digest,
        }
        case["id"] = f"generated-{number}"
    fixtures.index()
    process = run(consumer, fixtures.folder)
    # Every hash is accepted; the results are those of other queries, so they differ.
    assert process.returncode == 1, process.stderr
    assert process.stdout.count("FAILED generated-") == len(recipes)
