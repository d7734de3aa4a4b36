"""An entry that no case can have is refused, by name, and so is a case with other tensors."""

import copy
import json

import jsonschema
import numpy as np
import pytest
from small_folder import FOLDER, MANIFEST

from linattn_spec.case_tensors import INPUTS, check_tensors
from linattn_spec.fixtures import FixtureError
from linattn_spec.manifest_format import entries, flags, versions
from linattn_spec.safetensors_format import decode

FLAGS = flags((FOLDER / "flags.json").read_bytes())
SCHEMA = json.loads((FOLDER / "manifest.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
BY_ID = {case["id"]: case for case in MANIFEST["cases"]}
VALUE = BY_ID["linear-attention-gated-delta-float32"]
REFUSED = next(case for case in MANIFEST["cases"] if case["error"])
PARTS = BY_ID["tiny-two-calls-float64"]
TOKENS = next(case for case in MANIFEST["cases"] if case["tokens"] and case["generated"])
RECIPE = next(iter(TOKENS["generated"].values()))


def manifest(*cases):
    return json.dumps({"cases": cases}).encode()


def tensors(case):
    return decode((FOLDER / case["file"]).read_bytes())


def test_the_manifest_is_accepted_whole():
    assert entries((FOLDER / "manifest.json").read_bytes(), FLAGS) == MANIFEST["cases"]
    for case in MANIFEST["cases"]:
        check_tensors(case, tensors(case))


def test_the_operators_are_the_schemas():
    assert list(INPUTS) == SCHEMA["$defs"]["case"]["properties"]["operator"]["enum"]


# What the schema refuses too.
BAD_VALUES = {
    "id": [None, 3, "", "A", "a--b", "a b", ["a"]],
    "summary": [None, 0, "", []],
    "flags": [None, [], {}, "bad-input", ["bad-input"] * 2, ["no-such-flag"], [["bad-input"]]],
    "clause": [None, 0, ""],
    "operator": [None, 0, "foo", "__import__", ["relu"], {}],
    "dtype": [None, 0, "int32", ["float32"]],
    "arguments": [None, [], {"A": 1}, {"": 1}, {"a": []}, {"a": {}}, {"__a__()": 1}],
    "parts": [0, [], [5], [1, -1], [1.5, 2], "11", [True, 2]],
    "tokens": [0, [], [-1], [0, 0], [0.5], "0", [False]],
    "file": [None, 0, "", "x", "/etc/passwd", "cases/../x.safetensors", "cases/A.safetensors"],
    "generated": [None, [], {"x": RECIPE}, {"input.foo": RECIPE}, {"output.output": RECIPE}],
    "tolerances": [None, [], {"foo": 1}, {"output": 0}, {"output": -1}, {"output": "1"}],
    "tolerance_reason": [0, False, []],
    "error": [
        0,
        "ValueError",
        {},
        {"class": "ValueError"},
        {"class": "SystemExit", "pattern": "a"},
    ],
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_a_value_that_the_schema_refuses_is_refused_by_the_name_of_its_property(name):
    for value in BAD_VALUES[name]:
        bad = VALUE | {name: value}
        assert not VALIDATOR.is_valid({"cases": [bad]}), value
        with pytest.raises(FixtureError, match=rf"^manifest\.json: case 1 \(.*\): {name} "):
            entries(manifest(REFUSED, bad), FLAGS)


def test_an_entry_with_more_or_fewer_properties_is_refused():
    for name in VALUE:
        bad = {key: value for key, value in VALUE.items() if key != name}
        with pytest.raises(FixtureError, match="needs exactly the properties"):
            entries(manifest(bad), FLAGS)
    for bad in (VALUE | {"colour": "red"}, None, 3, "case", [], list(VALUE)):
        with pytest.raises(FixtureError, match=r"case 0 .* needs exactly the properties"):
            entries(manifest(bad), FLAGS)
    for data in (b"[]", b"{}", b'{"cases": {}}', b'{"cases": []}', b'{"cases": [], "more": 0}'):
        with pytest.raises(FixtureError, match=r"^manifest\.json: "):
            entries(data, FLAGS)


# What a schema could say as well, at greater length.
BEYOND_THE_SCHEMA = {
    "id with a newline": {"id": "a\n"},
    "summary of half a surrogate pair": {"summary": "\ud800"},
    "id of 5,000 letters": {"id": "a" * 5000},
    "file of 5,000 letters": {"file": f"cases/{'a' * 5000}.safetensors"},
    "an argument named as a tensor is": {"arguments": {"query": 1}},
    "unsorted tokens": {"tokens": [3, 1]},
    "tolerance of another operator's result": {"tolerances": {"present_state": 1}},
    "gradient of another operator's input": {"tolerances": {"gradient.x": 1}},
    "gradient of a mask": {"tolerances": {"gradient.mask": 1}},
    "tolerance is a boolean": {"tolerances": {"output": True}},
    "tolerance is infinite": {"tolerances": {"output": float("inf")}},
    "pattern that takes exponential time": {"error": {"class": "ValueError", "pattern": "(a|a)+$"}},
    "pattern of empty alternatives": {
        "error": {"class": "ValueError", "pattern": "(|)" * 99 + "x"}
    },
    "pattern that is none": {"error": {"class": "ValueError", "pattern": "("}},
    "pattern with a class": {"error": {"class": "ValueError", "pattern": "[[a]"}},
    "pattern with a trailing escape": {"error": {"class": "ValueError", "pattern": "a\\"}},
    "results of a refused call": {"error": {"class": "ValueError", "pattern": "a"}},
}


@pytest.mark.parametrize("changes", BEYOND_THE_SCHEMA.values(), ids=BEYOND_THE_SCHEMA)
def test_an_entry_that_makes_no_sense_is_refused(changes):
    with pytest.raises(FixtureError, match=r"^manifest\.json: ") as raised:
        entries(manifest(VALUE | changes), FLAGS)
    assert len(str(raised.value).encode()) < 400


BAD_RECIPES = {
    "int": {"dtype": "I32"},
    "unknown dtype": {"dtype": "F8"},
    "no dtype": {"dtype": None},
    "negative size": {"shape": [-1]},
    "too large": {"shape": [2**40]},
    "too large but for a 0": {"shape": [0, 2**52, 2**52]},
    "too many axes": {"shape": [1] * 33},
    "seed beyond 32 bits": {"seed": 2**32},
    "negative seed": {"seed": -1},
    "seed is a boolean": {"seed": True},
    "seed is a fraction": {"seed": 1.0},
    "offset beyond 8 bits": {"offset": 1},
    "exponent beyond float16": {"exponent": 9},
    "exponent below float16": {"exponent": -25},
    "hash in capitals": {"sha256": "A" * 64},
    "short hash": {"sha256": "a" * 63},
    "something else": {"code": "1"},
}


@pytest.mark.parametrize("changes", BAD_RECIPES.values(), ids=BAD_RECIPES)
def test_a_tensor_that_cannot_be_generated_is_refused(changes):
    bad = TOKENS | {"generated": {"input.query": RECIPE | changes}}
    with pytest.raises(FixtureError, match=r"^manifest\.json: case 0 \(.*\): generated must be "):
        entries(manifest(bad), FLAGS)


def test_a_small_manifest_that_generates_gigabytes_is_refused():
    recipe = RECIPE | {"dtype": "F64", "shape": [2**21]}
    many = [
        TOKENS
        | {"id": f"a{i}", "file": f"cases/a{i}.safetensors", "generated": {"input.query": recipe}}
        for i in range(17)
    ]
    assert len(entries(manifest(*many[:16]), FLAGS)) == 16
    with pytest.raises(FixtureError, match=r"^manifest\.json: generates more than "):
        entries(manifest(*many), FLAGS)


@pytest.mark.parametrize("name", ["id", "file"])
def test_two_cases_of_one_id_or_file_are_refused(name):
    with pytest.raises(FixtureError, match=f"two cases have the same {name}"):
        entries(manifest(VALUE, PARTS | {name: VALUE[name]}), FLAGS)


@pytest.mark.parametrize(
    "text",
    [
        '{"A": []}',
        '{"a": "b"}',
        '{"a": [1]}',
        '{"a": ["b", "b"]}',
        '{"a": [""]}',
        f'{{"a": ["{"b" * 99}"]}}',
    ],
)
def test_a_version_that_is_no_list_of_ids_is_refused(text):
    with pytest.raises(FixtureError, match=r"^versions\.json: "):
        versions(text.encode())


@pytest.mark.parametrize("flag", ["null", "{}", '{"fault": "a"}', '{"fault": "", "report": null}'])
def test_a_flag_that_is_not_explained_is_refused(flag):
    with pytest.raises(FixtureError, match=r"^flags\.json: 'a' "):
        flags(f'{{"a": {flag}}}'.encode())


def f64(*shape):
    return np.zeros(shape)


# Each: the case, what is added to its tensors (None: taken away), and what is said of it.
BAD_TENSORS = {
    "no group": (VALUE, {"query": f64(3)}, "'query' belongs to no group"),
    "another operator's input": (
        VALUE,
        {"input.x": f64(3)},
        "'input.x' is none of linear_attention",
    ),
    "code as a name": (VALUE, {"input.__import__": f64(3)}, "is none of linear_attention"),
    "another operator's result": (VALUE, {"output.present_state": f64(3)}, "is none of"),
    "third item": (VALUE, {"input.initial_state.2": f64(3)}, "is none of"),
    "state and tuple": (VALUE, {"input.initial_state.0": f64(3)}, "neither one tensor nor a tuple"),
    "no query": (VALUE, {"input.query": None}, "lacks the tensor 'input.query'"),
    "no output": (VALUE, {"output.output": None}, "tolerances for others"),
    "no gradient": (VALUE, {"gradient.key": None}, "tolerances for others"),
    "no cotangent": (VALUE, {"cotangent.output": None}, "needs a cotangent"),
    "complex output": (VALUE, {"output.output": f64(3).astype("c8")}, "is C64, not F64"),
    "wide cotangent": (VALUE, {"cotangent.output": f64(3)}, "is F64, not F16"),
    "narrow gradient": (VALUE, {"gradient.key": f64(3).astype("f4")}, "is not F64"),
    "shape of a gradient": (
        VALUE,
        {"gradient.key": f64(3)},
        "'gradient.key' has shape [3], expected [",
    ),
    "shape of an output": (
        VALUE,
        {"output.output": f64(3)},
        "'output.output' has shape [3], expected [",
    ),
    "refused with a result": (REFUSED, {"output.output": f64(3)}, "has inputs only"),
    "parts of another length": (PARTS | {"parts": [1, 3]}, {}, "has 3 tokens, but its parts 4"),
    "parts of no length": (PARTS, {"input.query": f64()}, "no number of tokens in common"),
    "token beyond the end": (TOKENS | {"tokens": [0, 10**9]}, {}, "none with the index 1000000000"),
    "other tokens": (TOKENS | {"tokens": [0]}, {}, "expected ["),
    "in the file and generated": (
        TOKENS,
        {next(iter(TOKENS["generated"])): f64(1)},
        "is in the file, and",
    ),
}


@pytest.mark.parametrize(("case", "changes", "said"), BAD_TENSORS.values(), ids=BAD_TENSORS)
def test_a_case_with_other_tensors_is_refused(case, changes, said):
    changed = {name: x for name, x in (tensors(case) | changes).items() if x is not None}
    with pytest.raises(FixtureError) as raised:
        check_tensors(copy.deepcopy(case), changed)
    assert str(raised.value).startswith(f"{case['file']}: ")
    assert said in str(raised.value)


def test_tokens_of_an_operator_that_has_none_are_refused():
    case = next(c for c in MANIFEST["cases"] if c["operator"] == "relu" and c["error"] is None)
    with pytest.raises(FixtureError, match="relu has no tokens to choose from"):
        check_tensors(case | {"tokens": [0]}, tensors(case))
