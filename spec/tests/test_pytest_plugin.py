"""The pytest plugin runs somebody else's test over exactly the cases that it asks for."""

import subprocess
import sys

import pytest

from linattn_spec.command.selection import cases_of

pytest_plugins = ["pytester"]

CASES = cases_of("linattn-1")
STRICT = ("--strict-markers", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
COLLECT = ("--collect-only", "-q", *STRICT)
CONFTEST = 'pytest_plugins = ["linattn_spec.pytest_plugin"]'


@pytest.fixture
def suite(pytester):
    """A test suite with these tests, and the plugin in its conftest."""

    def write(text):
        pytester.makeconftest(CONFTEST)
        pytester.makepyfile(f"import pytest\nfrom linattn_spec.conformance import *\n{text}")
        return pytester

    return write


def collected(result):
    return [
        line.partition("[")[2].removesuffix("]") for line in result.outlines if "::test_" in line
    ]


def marked(keywords):
    return f"@pytest.mark.linattn({keywords})\ndef test_conforms(linattn_case): pass"


def test_without_a_marker_it_is_all_cases_by_their_ids(suite):
    result = suite("def test_conforms(linattn_case): pass").runpytest_inprocess(*COLLECT)
    assert collected(result) == [case.id for case in CASES]


@pytest.mark.parametrize(
    ("keywords", "passes"),
    [
        ('operator="relu"', lambda c: c.operator == "relu"),
        ('dtype=["float16", "bfloat16"]', lambda c: c.dtype in ("float16", "bfloat16")),
        ('flag="segment-leak", dtype="float32"', lambda c: "segment-leak" in c.flags),
        ('without="bad-input"', lambda c: c.error is None),
    ],
)
def test_the_marker_narrows_the_cases(suite, keywords, passes):
    result = suite(marked(keywords)).runpytest_inprocess(*COLLECT)
    wanted = [case for case in CASES if passes(case)]
    if "float32" in keywords:
        wanted = [case for case in wanted if case.dtype == "float32"]
    assert collected(result) == [case.id for case in wanted]


def test_a_version_has_the_cases_of_its_list(suite):
    result = suite(marked('version="onnx-27"')).runpytest_inprocess(*COLLECT)
    assert collected(result) == [case.id for case in cases_of("onnx-27")]


def test_a_marker_of_the_module_holds_unless_a_nearer_one_says_otherwise(suite):
    tests = """
pytestmark = pytest.mark.linattn(version="onnx-27", dtype="float16")
def test_far(linattn_case): pass
@pytest.mark.linattn(dtype="bfloat16")
def test_near(linattn_case): pass
def test_of_something_else(): pass
"""
    result = suite(tests).runpytest_inprocess(*COLLECT)
    onnx = cases_of("onnx-27")
    wanted = [case.id for dtype in ("float16", "bfloat16") for case in onnx if case.dtype == dtype]
    assert [name for name in collected(result) if name] == wanted
    assert "test_of_something_else" in result.stdout.str()


CHECK = """
from linattn_spec.generate.oracle import oracle
def wrong(*call):
    results = oracle(*call)
    return results | {"output": results["output"] + 1}
@pytest.mark.linattn(operator="l2_normalize", without="bad-input")
def test_right(linattn_case): check_case(linattn_case, oracle)
@pytest.mark.linattn(operator="l2_normalize", without="bad-input")
def test_wrong(linattn_case): check_case(linattn_case, wrong)
@pytest.mark.linattn(operator="l2_normalize", without="bad-input", forward=True)
def test_forward(linattn_case): check_case(linattn_case, lambda *call: oracle(*call[:3]))
"""


def test_a_right_implementation_passes_and_a_wrong_one_fails_every_case(suite):
    count = sum(case.operator == "l2_normalize" and not case.error for case in CASES)
    result = suite(CHECK).runpytest_inprocess(*STRICT)
    result.assert_outcomes(passed=2 * count, failed=count)
    result.stdout.fnmatch_lines(["FAILED *::test_wrong[[]l2-normalize-*[]]*"])


def test_it_runs_in_several_processes(suite):
    count = sum(case.operator == "l2_normalize" and not case.error for case in CASES)
    result = suite(CHECK).runpytest_subprocess("-W", "error", "-n", "2", *STRICT)
    result.assert_outcomes(passed=2 * count, failed=count)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ('operator="relu", flag="segment-leak"', "no case of linattn-1 passes all filters"),
        ('operator="rellu"', "no operator 'rellu' in linattn-1; did you mean relu?"),
        ('version="onnx-26"', "version must be one of ['linattn-1', 'onnx-27', "),
        ('operators="relu"', "the marker linattn takes version, operator, dtype, flag, without, "),
        ('"onnx-27"', "the marker linattn takes version, operator, dtype, flag, without, "),
    ],
)
def test_a_marker_that_means_no_case_is_an_error(suite, keywords, message):
    result = suite(marked(keywords)).runpytest_inprocess(*STRICT)
    result.assert_outcomes(errors=1)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert f"test_conforms: {message}" in result.stdout.str()


def test_the_marker_is_explained(suite):
    result = suite("").runpytest_inprocess("--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.linattn(version=..., operator=..., *"])


def test_the_module_can_be_imported_where_there_is_no_pytest():
    script = (
        "import sys; sys.modules['pytest'] = None; import linattn_spec.pytest_plugin as p;"
        "assert callable(p.pytest_generate_tests)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, timeout=60)


def test_what_an_implementation_lacks_is_skipped_and_what_it_gets_wrong_fails(suite):
    tests = """
@pytest.mark.linattn(version="tiny", forward=True)
def test_conforms(linattn_case):
    def adapter(operator, inputs, arguments, cotangents=None):
        if operator == "kernelized_attention":
            raise NotImplementedError("kernels")
        return {}
    check_case(linattn_case, adapter)

def test_of_something_else():
    raise NotImplementedError
"""
    result = suite(tests).runpytest_inprocess(*STRICT, "-rs")
    tiny = cases_of("tiny")
    lacking = sum(case.operator == "kernelized_attention" for case in tiny)
    result.assert_outcomes(skipped=lacking, failed=len(tiny) - lacking + 1)
    result.stdout.fnmatch_lines(["*not implemented: kernels*"])
