"""Every fixture, in both execution modes."""

from functools import partial

import pytest
from adapter import EXECUTION_MODES, adapter

from linattn_spec.conformance import check_case
from linattn_spec.fixtures import load_cases


@pytest.mark.parametrize("execution_mode", EXECUTION_MODES)
@pytest.mark.parametrize("case", load_cases(), ids=lambda case: case.id)
def test_agrees_with_the_fixture(case, execution_mode):
    check_case(case, partial(adapter, execution_mode=execution_mode))
