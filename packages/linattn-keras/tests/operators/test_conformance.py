"""The operators in keras.ops alone, on this backend: a golden case of every kind.

`nox -s parity` runs all cases, in keras.ops and in the native packages.
"""

from functools import partial

import pytest
from adapter import adapter

from linattn_spec.conformance import check_case
from linattn_spec.fixtures import load_cases, one_of_each_kind

CASES = load_cases()


@pytest.mark.parametrize("execution_mode", ["parallel", "recurrent"])
@pytest.mark.parametrize("case", one_of_each_kind(CASES), ids=lambda case: case.id)
def test_conforms(case, execution_mode):
    check_case(case, partial(adapter, execution_mode=execution_mode, native=False))


@pytest.mark.parametrize("native", [True, False], ids=["native", "portable"])
@pytest.mark.parametrize("case", [case for case in CASES if case.error], ids=lambda case: case.id)
def test_refuses_in_the_words_of_every_other_package(case, native):
    check_case(case, partial(adapter, native=native))
