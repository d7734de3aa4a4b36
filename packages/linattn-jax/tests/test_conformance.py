"""A golden case of every kind, and every refused call, in both modes.

`nox -s parity -- jax` runs all cases.
"""

from functools import partial

import pytest
from adapter import WITH_MODE, adapter

from linattn_spec.conformance import check_case
from linattn_spec.fixtures import load_cases, one_of_each_kind

CASES = load_cases()
RUNS = [
    pytest.param(case, mode, id=f"{case.id}-{mode}")
    for case in [*one_of_each_kind(CASES), *(case for case in CASES if case.error)]
    for mode in (("parallel", "recurrent") if case.operator in WITH_MODE else ("auto",))
]


@pytest.mark.parametrize(("case", "execution_mode"), RUNS)
def test_conforms_to(case, execution_mode):
    check_case(case, partial(adapter, execution_mode=execution_mode))
