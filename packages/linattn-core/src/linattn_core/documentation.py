"""One contract, one text: the operators of every package carry the NumPy operators' docstrings."""

from collections.abc import Callable
from typing import Any, TypeVar

Operator = TypeVar("Operator", bound=Callable[..., Any])


def documented_as(original: Callable[..., Any], note: str) -> Callable[[Operator], Operator]:
    """A decorator: the docstring of `original`, and a note on what is special to the framework."""

    def document(operator: Operator) -> Operator:
        operator.__doc__ = f"{(original.__doc__ or '').rstrip()}\n\n    {note}\n    "
        return operator

    return document
