"""The layer's docstring: its example runs, and it explains every argument."""

import doctest
import inspect
import re

import keras
import pytest

from linattn_keras import LinearAttention, ops

DOCUMENT = inspect.getdoc(LinearAttention)


def test_the_example_runs():
    parser = doctest.DocTestParser()
    names = {"keras": keras, "LinearAttention": LinearAttention}
    example = parser.get_doctest(DOCUMENT, names, "LinearAttention", None, None)
    assert len(example.examples) >= 5
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize(
    ("section", "function"),
    [("Args", LinearAttention.__init__), ("Call arguments", LinearAttention.call)],
)
def test_every_argument_is_explained_in_its_section(section, function):
    text = re.search(rf"^{section}:\n((?: .*\n|\n)+)", DOCUMENT, re.MULTILINE)[1]
    documented = re.findall(r"^    (\*{0,2}\w+): ", text, re.MULTILINE)
    stars = {inspect.Parameter.VAR_KEYWORD: "**"}
    parameters = list(inspect.signature(function).parameters.values())[1:]
    assert documented == [stars.get(x.kind, "") + x.name for x in parameters]


@pytest.mark.parametrize("name", ops.__all__)
def test_operators_carry_the_contract_and_what_is_special_to_keras(name):
    document = getattr(ops, name).__doc__
    assert "Args:" in document
    assert "Raises:" in document
    assert "`native`: None" in document
