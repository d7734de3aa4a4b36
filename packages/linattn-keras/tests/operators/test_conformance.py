"""The operators on this backend: a golden case of every kind, native and in keras.ops alone.

`nox -s parity` runs all cases, in all of these ways.
"""

from functools import partial

import pytest
from adapter import adapter

from linattn_spec.conformance import check_case
from linattn_spec.fixtures import load_cases, one_of_each_kind

CASES = load_cases()
NATIVE = pytest.mark.parametrize("native", [True, False], ids=["native", "portable"])


@NATIVE
@pytest.mark.parametrize("execution_mode", ["parallel", "recurrent"])
@pytest.mark.parametrize("case", one_of_each_kind(CASES), ids=lambda case: case.id)
def test_conforms(case, execution_mode, native):
    check_case(case, partial(adapter, execution_mode=execution_mode, native=native))


@NATIVE
@pytest.mark.parametrize("case", [case for case in CASES if case.error], ids=lambda case: case.id)
def test_refuses_in_the_words_of_every_other_package(case, native):
    check_case(case, partial(adapter, native=native))
