"""A golden case of every kind, and every refused call, in both modes.

`nox -s parity -- torch` runs all cases.
"""

from functools import partial

import pytest
from adapter import EXECUTION_MODES, adapter

from linattn_spec.conformance import check_case
from linattn_spec.fixtures import load_cases, one_of_each_kind

CASES = load_cases()
CHOSEN = [*one_of_each_kind(CASES), *(case for case in CASES if case.error)]


@pytest.mark.parametrize("execution_mode", EXECUTION_MODES)
@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.id)
def test_agrees_with_the_fixture(case, execution_mode):
    check_case(case, partial(adapter, execution_mode=execution_mode))
