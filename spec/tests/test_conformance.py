"""The runner accepts what is right and refuses everything that is not."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from linattn_spec.conformance import check_case, differences, run_case
from linattn_spec.fixtures import Case, load_cases
from linattn_spec.generate.oracle import oracle

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
    cases = [case for case in VALUE_CASES if case.operator == operator]
    assert cases
    for case in cases:
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
