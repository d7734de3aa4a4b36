"""The code's comments and the page of mathematics use the same equation numbers."""

import re
from pathlib import Path

SPEC = Path(__file__).parents[1]
PAGE = (SPEC / "math" / "linear_attention.md").read_text(encoding="utf-8")
EQUATION = r"(?<!\w)\(([RC]?\d+)\)"
DEFINED = re.findall(rf"^    {EQUATION} ", PAGE, re.MULTILINE)


def cited():
    """The numbers in comments and docstrings of the code."""
    text = "".join(p.read_text(encoding="utf-8") for p in SPEC.glob("src/linattn_spec/**/*.py"))
    prose = re.findall(r"#[^\n]*|\"\"\".*?\"\"\"", text, re.DOTALL)
    return {number for part in prose for number in re.findall(EQUATION, part)}


def test_every_equation_number_is_defined_once():
    assert len(DEFINED) == len(set(DEFINED)) > 0


def test_every_number_cited_in_the_code_is_an_equation():
    assert cited() <= set(DEFINED)


def test_every_equation_is_cited_in_the_code():
    assert set(DEFINED) <= cited()
