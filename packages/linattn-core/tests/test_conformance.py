"""Every golden case, in both forms, with gradients."""

from functools import partial

import pytest
from adapter import adapter

from linattn_spec.conformance import check_case
from linattn_spec.fixtures import load_cases


@pytest.mark.parametrize("execution_mode", ["parallel", "recurrent"])
@pytest.mark.parametrize("case", load_cases(), ids=lambda case: case.id)
def test_conforms(case, execution_mode):
    check_case(case, partial(adapter, execution_mode=execution_mode))
