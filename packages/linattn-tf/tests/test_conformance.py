"""A golden case of every kind, and every refused call, in both modes, eagerly and compiled.

`nox -s parity -- tf` runs all cases.
"""

from functools import partial

import pytest
from adapter import adapter

from linattn_spec.conformance import check_case
from linattn_spec.fixtures import load_cases, one_of_each_kind

CASES = load_cases()
KINDS = one_of_each_kind(CASES)
REFUSED = [case for case in CASES if case.error]


def but_for_its_dtype(case):
    rule = case.arguments.get("update_rule"), case.arguments.get("causal")
    return case.operator, rule, frozenset(case.inputs)


# To trace one takes a second, and the dtypes differ by a cast before and one after.
TRACED = list({but_for_its_dtype(case): case for case in KINDS}.values())


@pytest.mark.parametrize("execution_mode", ["parallel", "recurrent"])
@pytest.mark.parametrize("case", [*KINDS, *REFUSED], ids=lambda case: case.id)
def test_conforms(case, execution_mode):
    check_case(case, partial(adapter, execution_mode=execution_mode))


@pytest.mark.parametrize("execution_mode", ["parallel", "recurrent"])
@pytest.mark.parametrize("case", TRACED, ids=lambda case: case.id)
def test_conforms_in_a_tf_function_with_unknown_sizes(case, execution_mode):
    check_case(case, partial(adapter, execution_mode=execution_mode, compiled="graph"))


def fullest(rule):
    """The case of `rule` with the most inputs among those in float32 and short chunks."""
    cases = (
        case
        for case in CASES
        if case.operator == "linear_attention"
        and case.error is None
        and case.dtype == "float32"
        and case.arguments["update_rule"] == rule
        and case.arguments.get("chunk_size") == 4
    )
    return max(cases, key=lambda case: len(case.inputs))


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_conforms_when_compiled_by_xla_with_unknown_sizes(rule):
    check_case(fullest(rule), partial(adapter, execution_mode="parallel", compiled="xla"))
