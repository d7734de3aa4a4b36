"""Who takes part: one module per family, which is imported in the family's own process alone.

A module has CONTENDERS, `{name: Contender}`, and FRAMEWORK, one of benchmarks.frameworks.
"""

from collections.abc import Callable
from typing import NamedTuple


class Contender(NamedTuple):
    """Something that can be timed.

    Attributes:
        takes: from a problem and a pass, whether it can do that.
        build: from a problem, a pass, inputs and cotangents to the call that is timed.
        normalizes: whether it gives queries and keys unit length.
    """

    takes: Callable
    build: Callable
    normalizes: bool = False


def builder(framework, function, step=None, **options):
    """A contender's `build` from what makes a function of a problem, and one of a token."""

    def build(problem, which, inputs, cotangents):
        if which == "step":
            return framework.step(step(problem), inputs, problem.dtype, **options)
        if which == "forward":
            return framework.forward(function(problem), inputs, problem.dtype, **options)
        made = function(problem)
        return framework.gradient(made, inputs, cotangents, problem.dtype, **options)

    return build
