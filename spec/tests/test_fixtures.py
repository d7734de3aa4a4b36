"""The fixtures are complete: what the manifest says and what the cases hold."""

import hashlib
import json
import re
from fractions import Fraction

import jsonschema
import ml_dtypes
import numpy as np
import pytest

from linattn_spec.fixtures import fixtures_directory, load_cases, one_of_each_kind
from linattn_spec.linear_attention import UPDATE_RULES
from linattn_spec.parts import has_time_axis
from linattn_spec.safetensors_format import decode
from linattn_spec.tolerances import ACCUMULATION, GRADIENT, UNIT_ROUNDOFF, VALUE

FOLDER = fixtures_directory()
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())
FLAGS = json.loads((FOLDER / "flags.json").read_text())
CASES = load_cases()
VALUE_CASES = [case for case in CASES if case.error is None]
FILES = sorted((FOLDER / "cases").iterdir())

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
    assert set(index) == present - {"index.sha256", "README.md", "CHANGELOG.md"}
    for path, digest in index.items():
        assert hashlib.sha256((FOLDER / path).read_bytes()).hexdigest() == digest


def test_the_folder_stays_small():
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 8_000_000


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
            shape = list(case.inputs[name].shape)
            if case.tokens is not None and has_time_axis(name):
                shape[1] = len(case.tokens)
            assert list(gradient.shape) == shape, case.id
        for oracle in (*case.outputs.values(), *case.gradients.values()):
            assert np.all(np.isfinite(oracle)), case.id


FAULTS = {
    "padding still decays the state": "padding-decays",
    "mask skipped when B = 1": "mask-skipped-batch-one",
    "masked keys stay in the denominator": "masked-keys-in-denominator",
    "NaN gradient of a normalised zero": "l2-normalize-zero",
    "state honoured for one token only": "state-one-token",
    "normaliser state not carried": "normalizer-state-dropped",
    "gradient through the state dropped": "state-gradient-dropped",
    "state kept in the input dtype": "state-precision",
    "packed boundaries leak": "segment-leak",
    "chunk remainder": "chunk-remainder",
    "empty and length-1 scans": "short-sequence",
    "a guard against overflow changes a gate of 0": "gate-zero",
    "a parallel cumulative sum is not monotonic": "positive-difference",
    "exp before the mask": "exp-before-mask",
    "0 times infinity between factors": "zero-times-infinity",
    "gate gradient cancels": "gate-gradient-cancels",
    "tile instead of repeat": "tile-for-repeat",
    "output shape from the wrong heads": "output-heads",
    "transposed state": "transposed-state",
    "prefix depends on the future": "future-leak",
    "bfloat16 elu + 1 cancels": "elu-cancels",
    "triangular inverse explodes": "inverse-explodes",
    "decay before or after the error": "error-before-decay",
    "compiled differs from eager": "compiled-differs",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_known_kind_of_fault_has_a_report_and_two_cases_beside_the_tiny_ones(fault):
    flag = FAULTS[fault]
    assert FLAGS[flag]["report"] is not None
    cases = [case.id for case in VALUE_CASES if flag in case.flags]
    assert sum(not id.startswith("tiny-") for id in cases) >= 2, cases


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
    """Hk may equal Hv, B and T may be anything in short sequences, and tiny ones have one head."""
    for case in VALUE_CASES:
        operators = ("linear_attention", "kernelized_attention")
        if case.operator not in operators or case.id.startswith("tiny-"):
            continue
        B, T, Hq, Dk = case.inputs["query"].shape
        Hv, Dv = case.inputs["value"].shape[2:]
        sizes = [B, T, Hq, Hv, Dk, Dv]
        if T < 6 or B == 0:
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
    lengths = {c.inputs["query"].shape[1] for c in cases if c.arguments.get("chunk_size") == 4}
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


@pytest.mark.parametrize("chunk", [16, 32, 64, 128])
def test_every_length_around_the_edges_of_larger_chunks_is_there_with_results_at_the_edges(chunk):
    lengths = {}
    for case in VALUE_CASES:
        if case.arguments.get("chunk_size") == chunk and case.tokens is not None:
            lengths.setdefault(case.inputs["query"].shape[1], set()).update(case.tokens)
    assert set(lengths) >= {chunk - 1, chunk, chunk + 1, 2 * chunk + 3}
    edges = {0, chunk - 1, chunk, chunk + 1, 2 * chunk - 1, 2 * chunk, 2 * chunk + 2}
    assert lengths[2 * chunk + 3] >= edges


def test_there_are_sequences_longer_than_16_bits_count():
    lengths = [case.inputs["query"].shape[1] for case in VALUE_CASES if case.tokens]
    assert {2048, 65536} <= set(lengths)
    assert max(lengths) > 65536
    for case in VALUE_CASES:
        if case.tokens is not None:
            T = case.inputs["query"].shape[1]
            assert list(case.tokens) == sorted(set(case.tokens) & set(range(T)))
            if "length" in case.id:
                assert T - 1 in case.tokens


def test_every_operator_with_a_state_is_also_called_in_parts():
    cases = [case for case in VALUE_CASES if case.parts is not None]
    called = {(case.operator, case.arguments.get("update_rule")) for case in cases}
    rules = {("linear_attention", rule) for rule in UPDATE_RULES}
    onnx = ("onnx_linear_attention", "gated_delta")
    assert called == rules | {("kernelized_attention", None), onnx}
    assert {(5, 7), (1, 11), (6, 6), (1,) * 12, (5, 0, 7)} <= {case.parts for case in cases}
    for case in cases:
        assert sum(case.parts) == case.inputs["query"].shape[1]


def test_a_generated_tensor_is_what_the_readme_says_and_exact_in_every_dtype():
    def fmix(x):
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            x = (x ^ (x >> shift)) * factor % 2**32
        return x ^ (x >> 16)

    generated = [(c, n, g) for c in VALUE_CASES for n, g in c.generated.items()]
    assert len({name for _, name, _ in generated}) >= 6
    for case, name, recipe in generated:
        group, _, argument = name.partition(".")
        x = (case.inputs if group == "input" else case.cotangents)[argument].astype(np.float64)
        for i in (0, 1, x.size // 2, x.size - 1):
            m = fmix((i + fmix(recipe.seed)) % 2**32) >> 24
            assert x.flat[i] == (m + recipe.offset) * 2.0**recipe.exponent
        for dtype in (np.float16, ml_dtypes.bfloat16):
            np.testing.assert_array_equal(x, x.astype(dtype).astype(np.float64))


def test_generated_tensors_of_one_case_differ():
    for case in VALUE_CASES:
        seeds = [recipe.seed for recipe in case.generated.values()]
        assert len(set(seeds)) == len(seeds), case.id


def test_one_of_each_kind_is_one_call_with_all_results_for_each_set_of_inputs():
    chosen = one_of_each_kind(CASES)
    assert all(c.error is c.parts is c.tokens is None for c in chosen)
    whole = [c for c in VALUE_CASES if c.parts is None and c.tokens is None]
    for dtype in VALUE:
        for operator in {case.operator for case in whole}:
            kinds = [
                {frozenset(c.inputs) for c in cases if (c.operator, c.dtype) == (operator, dtype)}
                for cases in (chosen, whole)
            ]
            assert kinds[0] == kinds[1]


# --- the tiny cases


TINY = load_cases("tiny")


def test_about_twenty_tiny_cases_stand_as_text():
    assert {path.stem for path in (FOLDER / "tiny").iterdir()} == {case.id for case in TINY}
    assert len(TINY) == 20
    assert max(x.size for case in TINY for x in case.inputs.values()) <= 6


@pytest.mark.parametrize("case", TINY, ids=lambda case: case.id)
def test_the_text_of_a_tiny_case_has_the_numbers_of_its_file(case):
    text = json.loads((FOLDER / "tiny" / f"{case.id}.json").read_text())
    tensors = text.pop("tensors")
    assert text in MANIFEST["cases"]
    stored = decode((FOLDER / text["file"]).read_bytes())
    assert set(tensors) == set(stored)
    for name, written in tensors.items():
        x = stored[name]
        assert (written["dtype"], written["shape"]) == (x.dtype.name, list(x.shape))
        words = [int(word, 16) for word in written["bits"]]
        bits = np.array(words, f"u{x.dtype.itemsize}").view(x.dtype).reshape(x.shape)
        decimals = np.array(written["values"], np.float64).astype(x.dtype).reshape(x.shape)
        assert bits.tobytes() == x.tobytes()
        assert decimals.tobytes() == x.tobytes()


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
