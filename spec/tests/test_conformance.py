"""The runner accepts what is right and refuses everything that is not."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from linattn_spec.conformance import check_case, differences, run_case
from linattn_spec.fixtures import Case, load_cases
from linattn_spec.generate.oracle import oracle
from linattn_spec.linear_attention import linear_attention

CASES = load_cases()
VALUE_CASES = [case for case in CASES if case.error is None]
BY_ID = {case.id: case for case in CASES}
CASE = BY_ID["linear-attention-gated-delta-float64"]
REFUSED = Case(
    id="invalid-example",
    summary="Refused.",
    flags=("bad-input",),
    clause="errors",
    operator="linear_attention",
    dtype="float32",
    arguments={"chunk_size": 0},
    inputs={},
    error=("ValueError", r"^chunk_size must be an integer >= 1, got 0(:|$)"),
)


def altered(**tensors):
    """The definitions as an adapter, with `tensors` put over, or, if None, left out."""

    def adapter(*call):
        results = oracle(*call) | {name.replace("__", "."): x for name, x in tensors.items()}
        return {name: x for name, x in results.items() if x is not None}

    return adapter


def raising(error):
    def adapter(*call):
        raise error

    return adapter


@pytest.mark.parametrize("operator", sorted({case.operator for case in VALUE_CASES}))
def test_the_definitions_pass_every_value_case(operator):
    """But the longest, which the test that the fixtures are as generated computes."""
    cases = [case for case in VALUE_CASES if case.operator == operator]
    assert cases
    for case in cases:
        if case.tokens is None or case.tokens[-1] < 2048:
            check_case(case, oracle)


def nudged(name, factor):
    """The expected tensor, its largest element moved by `factor` times what is allowed."""
    x = (CASE.outputs | {f"gradient.{n}": g for n, g in CASE.gradients.items()})[name].copy()
    where = np.unravel_index(np.argmax(np.abs(x)), x.shape)
    x[where] += factor * CASE.tolerances[name] * np.max(np.abs(x))
    return x


@pytest.mark.parametrize("name", sorted(CASE.tolerances))
def test_an_error_beyond_the_tolerance_fails_and_one_within_it_passes(name):
    key = name.replace(".", "__")
    with pytest.raises(AssertionError, match=rf"\n  {name}\[[\d, ]+\]: expected .*, got "):
        check_case(CASE, altered(**{key: nudged(name, 2.0)}))
    check_case(CASE, altered(**{key: nudged(name, 0.5)}))


@pytest.mark.parametrize("name", sorted(CASE.tolerances))
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_element_that_is_not_finite_fails(name, value):
    x = nudged(name, 0.0)
    x[(-1,) * x.ndim] = value
    with pytest.raises(AssertionError, match=rf"\n  {name}"):
        check_case(CASE, altered(**{name.replace(".", "__"): x}))


@pytest.mark.parametrize("name", sorted(CASE.tolerances))
def test_a_missing_tensor_fails(name):
    with pytest.raises(AssertionError, match=rf"{name}.*got nothing"):
        check_case(CASE, altered(**{name.replace(".", "__"): None}))


@pytest.mark.parametrize("name", sorted(CASE.tolerances))
def test_another_shape_fails_even_if_it_broadcasts(name):
    x = nudged(name, 0.0)[None]
    with pytest.raises(AssertionError, match=rf"{name}.*expected shape .*, got shape "):
        check_case(CASE, altered(**{name.replace(".", "__"): x}))


def test_the_report_names_the_case_the_worst_element_and_both_values():
    x = CASE.outputs["output"].copy()
    x[1, 8, 2, 4] = 1e6
    with pytest.raises(AssertionError) as failure:
        check_case(CASE, altered(output=x))
    report = str(failure.value)
    assert CASE.id in report
    assert "output[1, 8, 2, 4]" in report
    assert "1000000" in report
    assert "tolerance 1e-12" in report


def test_an_oracle_of_zeros_wants_exact_zeros():
    case = BY_ID["linear-attention-gated-delta-scale-0-float64"]
    assert not np.any(case.outputs["output"])
    check_case(case, oracle)
    tiny = np.full(case.outputs["output"].shape, 1e-300)
    with pytest.raises(AssertionError, match="output"):
        check_case(case, altered(output=tiny))


def test_differences_are_relative_to_the_largest_element_of_the_oracle():
    case = replace(CASE, outputs={"output": np.array([4.0, 1.0])}, gradients={}, cotangents={})
    (difference,) = differences(case, {"output": np.array([4.0, 1.5])})
    assert (difference.error, difference.where) == (0.125, (1,))
    assert difference.excessive


def test_differences_has_a_record_for_every_tensor_right_or_wrong():
    records = differences(CASE, run_case(CASE, oracle))
    assert sorted(record.tensor for record in records) == sorted(CASE.tolerances)
    assert not any(record.excessive for record in records)


def test_low_precision_results_are_compared_without_rounding_the_oracle():
    case = BY_ID["linear-attention-gated-delta-bfloat16"]
    rounded = case.outputs["output"].astype(ml_dtypes.bfloat16)
    check_case(case, altered(output=rounded))
    (record, *_) = differences(case, {"output": rounded})
    assert record.error > 0


def test_tuple_valued_arguments_reach_the_adapter_as_tuples():
    case = next(case for case in VALUE_CASES if "initial_state.1" in case.inputs)
    seen = {}

    def adapter(operator, inputs, arguments, cotangents):
        seen.update(inputs)
        return oracle(operator, inputs, arguments, cotangents)

    check_case(case, adapter)
    assert [x.ndim for x in seen["initial_state"]] == [4, 3]
    assert "initial_state.0" not in seen


def test_an_adapter_cannot_change_the_arguments_of_a_case():
    def adapter(operator, inputs, arguments, cotangents):
        arguments.clear()
        inputs.clear()
        return {}

    before = (dict(CASE.arguments), set(CASE.inputs))
    run_case(CASE, adapter)
    assert (CASE.arguments, set(CASE.inputs)) == before


def test_the_right_error_with_the_right_text_passes():
    check_case(REFUSED, raising(ValueError("chunk_size must be an integer >= 1, got 0")))


class Subclass(ValueError):
    pass


@pytest.mark.parametrize(
    "error",
    [
        TypeError("chunk_size must be an integer >= 1, got 0"),
        Subclass("chunk_size must be an integer >= 1, got 0"),
        ValueError("chunk_size must be an integer >= 1, got -4"),
        ValueError("chunk_size must be an integer >= 1, got 00"),
        ValueError("in linear_attention: chunk_size must be an integer >= 1, got 0"),
        ValueError(""),
    ],
    ids=["class", "subclass", "value", "more digits", "prefix", "empty"],
)
def test_another_error_class_or_text_fails(error):
    with pytest.raises(AssertionError, match="expected ValueError matching"):
        check_case(REFUSED, raising(error))


def test_no_error_fails():
    with pytest.raises(AssertionError, match="got no error"):
        check_case(REFUSED, lambda *call: {})


def test_an_error_in_a_value_case_comes_through():
    with pytest.raises(ZeroDivisionError):
        check_case(CASE, raising(ZeroDivisionError()))


# --- calls in parts, and results at some tokens


PARTS = BY_ID["linear-attention-gated-delta-parts-5-0-7-float64"]
KERNEL_PARTS = BY_ID["kernelized-attention-parts-5-0-7-float64"]
SAMPLED = BY_ID["linear-attention-gated-delta-edge-16-length-35-float32"]


def recorded(calls, change=lambda results: results):
    """The definitions as an adapter that notes what it is called with."""

    def adapter(operator, inputs, arguments, cotangents=None):
        calls.append((inputs, cotangents))
        return change(oracle(operator, inputs, arguments, cotangents))

    return adapter


def test_a_case_in_parts_is_one_call_for_each_from_the_state_of_the_last():
    calls = []
    run_case(replace(PARTS, cotangents={}), recorded(calls))
    assert [inputs["query"].shape[1] for inputs, _ in calls] == [5, 0, 7]
    first, second, third = (inputs for inputs, _ in calls)
    np.testing.assert_array_equal(first["initial_state"], PARTS.inputs["initial_state"])
    _, state = linear_attention(**first, **definition(PARTS))
    np.testing.assert_array_equal(second["initial_state"], state)
    np.testing.assert_array_equal(third["initial_state"], state)
    np.testing.assert_array_equal(third["beta"], PARTS.inputs["beta"][:, 5:])


def definition(case):
    return {name: x for name, x in case.arguments.items() if name != "chunk_size"}


@pytest.mark.parametrize("case", [PARTS, KERNEL_PARTS], ids=lambda case: case.id)
def test_the_parts_together_are_the_whole(case):
    whole, parts = run_case(replace(case, parts=None), oracle), run_case(case, oracle)
    assert set(whole) == set(parts)
    for name, x in whole.items():
        np.testing.assert_allclose(parts[name], x, rtol=0, atol=1e-13 * np.max(np.abs(x)))


def forgetting(name):
    return lambda results: {n: 0 * x if n == name else x for n, x in results.items()}


@pytest.mark.parametrize(
    ("case", "lost", "tensor"),
    [
        (PARTS, "final_state", "output"),
        (PARTS, "gradient.initial_state", "gradient.value"),
        (KERNEL_PARTS, "final_state.1", "output"),
        (KERNEL_PARTS, "gradient.initial_state.0", "gradient.key"),
    ],
    ids=lambda x: getattr(x, "id", x),
)
def test_a_state_or_its_gradient_that_is_lost_between_calls_is_found(case, lost, tensor):
    found = differences(case, run_case(case, recorded([], forgetting(lost))))
    assert tensor in {difference.tensor for difference in found if difference.excessive}


@pytest.mark.parametrize("name", ["output", "final_state", "gradient.initial_state"])
def test_a_result_that_is_missing_in_a_call_is_missing(name):
    def lacking(results):
        return {key: x for key, x in results.items() if key != name}

    with pytest.raises(AssertionError, match="nothing"):
        check_case(PARTS, recorded([], lacking))


def test_results_are_compared_at_the_tokens_of_the_case_and_nowhere_else():
    tokens = list(SAMPLED.tokens)
    others = sorted(set(range(35)) - set(tokens))

    def spoilt(at):
        def change(results):
            output = results["output"].copy()
            output[:, at] += 1.0
            return results | {"output": output}

        return recorded([], change)

    assert run_case(SAMPLED, oracle)["output"].shape[1] == len(tokens) < 35
    check_case(SAMPLED, spoilt(others))
    for token in tokens:
        with pytest.raises(AssertionError, match="output"):
            check_case(SAMPLED, spoilt(token))


def test_a_result_of_the_wrong_length_is_a_difference_not_a_crash():
    def short(results):
        return results | {"output": results["output"][:, :3]}

    with pytest.raises(AssertionError, match="shape"):
        check_case(SAMPLED, recorded([], short))


def test_an_adapter_that_writes_into_what_it_is_given_changes_no_case():
    before = {name: x.copy() for name, x in CASE.cotangents.items()}

    def adapter(operator, inputs, arguments, cotangents=None):
        results = oracle(operator, inputs, arguments, cotangents)
        for x in cotangents.values():
            x[...] = 0
        cotangents.clear()
        arguments.clear()
        return results

    check_case(CASE, adapter)
    for name, x in before.items():
        np.testing.assert_array_equal(CASE.cotangents[name], x)
    assert all(not x.flags.writeable for case in (CASE, SAMPLED) for x in case.inputs.values())


def test_complex_results_are_a_difference_however_right_their_real_part():
    output = oracle(CASE.operator, CASE.inputs, CASE.arguments)["output"] + 5j
    with pytest.raises(AssertionError, match="expected real numbers, got complex128"):
        check_case(CASE, altered(output=output))


@pytest.mark.parametrize("case", [CASE, PARTS, SAMPLED], ids=lambda case: case.id)
@pytest.mark.parametrize(
    "output",
    [0.0, np.zeros(3), np.zeros((2, 3)), [[1.0], [2.0, 3.0]], np.array(["1"]), object(), b"1"],
    ids=["number", "vector", "matrix", "ragged", "text", "object", "bytes"],
)
def test_a_result_that_is_no_tensor_of_the_shape_is_a_difference_not_a_crash(case, output):
    def change(results):
        return results | {"output": output}

    with pytest.raises(AssertionError, match=r"output\[\]: expected"):
        check_case(case, recorded([], change))


@pytest.mark.parametrize("case", [PARTS, SAMPLED], ids=lambda case: case.id)
@pytest.mark.parametrize("name", ["output", "gradient.beta"])
def test_a_result_that_is_one_token_too_long_is_a_difference(case, name):
    def change(results):
        return {n: np.repeat(x, 2, axis=1) if n == name else x for n, x in results.items()}

    with pytest.raises(AssertionError, match=rf"{name}\[\]: expected shape"):
        check_case(case, recorded([], change))


def test_an_adapter_that_returns_no_dict_is_told_so():
    with pytest.raises(TypeError, match="must return a dict of arrays by name, got NoneType"):
        check_case(CASE, lambda *call: None)
