"""Every golden case, in both forms; and cases of every kind in the two ways to compile them."""

from functools import partial

import pytest
from adapter import adapter

from linattn_spec.conformance import check_case
from linattn_spec.fixtures import load_cases

CASES = load_cases()


@pytest.mark.parametrize("execution_mode", ["parallel", "recurrent"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_conforms(case, execution_mode):
    check_case(case, partial(adapter, execution_mode=execution_mode))


def one_of_each_kind(cases):
    """The longest case of every operator, rule, dtype and set of inputs."""
    kinds = {}
    for case in cases:
        if case.error is None:
            rule = case.arguments.get("update_rule"), case.arguments.get("causal")
            kind = case.operator, rule, case.dtype, frozenset(case.inputs)
            size = sum(x.size for x in case.inputs.values())
            if kind not in kinds or size > kinds[kind][0]:
                kinds[kind] = size, case
    return [case for _, case in kinds.values()]


KINDS = one_of_each_kind(CASES)


@pytest.mark.parametrize("execution_mode", ["parallel", "recurrent"])
@pytest.mark.parametrize("case", KINDS, ids=lambda case: case.id)
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
