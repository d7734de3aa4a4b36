"""A pytest plugin: tests that take `linattn_case` run once for each case of the fixtures.

In the outermost conftest.py:

    pytest_plugins = ["linattn_spec.pytest_plugin"]

In a test module:

    @pytest.mark.linattn(version="onnx-27", dtype=["float32", "float16"])
    def test_conforms(linattn_case):
        check_case(linattn_case, adapter)

The marker's keywords narrow the cases: version, operator, dtype, flag, without (no case with that
flag), each but version one value or a list of them; forward=True leaves the gradients out. A test
that ends in NotImplementedError is skipped. A
marker nearer to the test goes before one of its class or module, keyword by keyword.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from linattn_spec.command import UsageError
from linattn_spec.command.selection import ALL, Filters, forward_only, select

if TYPE_CHECKING:
    import pytest

    from linattn_spec.fixtures import Case

_MARKER = "linattn"
_ARGUMENT = "linattn_case"
_KEYWORDS = ("version", "operator", "dtype", "flag", "without", "forward")


def pytest_configure(config: pytest.Config) -> None:
    keywords = ", ".join(f"{name}=..." for name in _KEYWORDS)
    config.addinivalue_line("markers", f"{_MARKER}({keywords}): which cases {_ARGUMENT} runs over.")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if _ARGUMENT not in metafunc.fixturenames:
        return
    import pytest

    try:
        cases = _cases(_keywords(metafunc.definition))
    except UsageError as error:
        pytest.fail(f"{metafunc.definition.nodeid}: {error}", pytrace=False)
    metafunc.parametrize(_ARGUMENT, cases, ids=[case.id for case in cases])


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """What the implementation says that it lacks is skipped, and so is reported as not run."""
    if _ARGUMENT not in pyfuncitem.fixturenames:
        return
    import pytest

    function = pyfuncitem.obj

    @functools.wraps(function)
    def skipping(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except NotImplementedError as error:
            pytest.skip(f"not implemented: {error}")

    pyfuncitem.obj = skipping


def _keywords(definition: pytest.Item) -> dict[str, Any]:
    keywords: dict[str, Any] = {}
    for marker in definition.iter_markers(_MARKER):
        unknown = set(marker.kwargs) - set(_KEYWORDS)
        if marker.args or unknown:
            given = ", ".join([*map(repr, marker.args), *sorted(unknown)])
            raise UsageError(f"the marker {_MARKER} takes {', '.join(_KEYWORDS)}, not {given}")
        keywords = dict(marker.kwargs) | keywords
    return keywords


def _cases(keywords: dict[str, Any]) -> tuple[Case, ...]:
    chosen = select(
        Filters(
            version=keywords.get("version", ALL),
            operators=_values(keywords.get("operator")),
            dtypes=_values(keywords.get("dtype")),
            flags=_values(keywords.get("flag")),
            without=_values(keywords.get("without")),
        )
    )
    return tuple(map(forward_only, chosen)) if keywords.get("forward") else chosen


def _values(given: Any) -> tuple[str, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)
