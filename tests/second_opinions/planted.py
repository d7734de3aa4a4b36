"""Faults planted in the definition: a peer that does not contradict them is no second opinion.

They are mutants of linattn_spec, which agree with the definition but for one fault each.
"""

from collections.abc import Iterable, Sequence

from linattn_spec.fixtures import Case
from linattn_spec.mutants import MUTANTS
from second_opinions.compare import Answer, judge
from second_opinions.functions import needs

OUTPUTS = (
    "decay-after-write",
    "decay-in-base-two",
    "decay-on-value-axis",
    "error-before-decay",
    "beta-on-value-only",
    "read-before-write",
    "transposed-state",
    "past-ignored",
    "gates-of-the-first-row",
    "tiled-query-heads",
    "tiled-key-heads",
)
SCALE = ("scale-ignored",)
PADDING = (
    "padding-decays",
    "boundary-leak",
    "first-segment-starts-from-zeros",
    "boundary-gradient-leak",
)
GRADIENTS = (
    "final-state-gradient-dropped",
    "initial-state-gradient-dropped",
    "beta-gradient-from-value-only",
    "shared-head-gradient-overwritten",
)


def contradictions(faults: Iterable[str], answers: Sequence[Answer]) -> dict[str, int]:
    """How many results contradict the definition with each fault, on a problem of every kind.

    A fault outside the gradients has to show in outputs or states to count.
    """
    asked = _of_every_kind(answers)
    found = {}
    for name in faults:
        _, definition = MUTANTS[name]
        found[name] = sum(
            m.tensor.startswith("gradient.") == definition.in_gradients
            for m in judge(asked, definition).unexpected
        )
    return found


def _of_every_kind(answers: Sequence[Answer]) -> list[Answer]:
    """The answers to the largest problem of each operator and each set of needs."""
    kinds: dict[tuple[str, frozenset[str]], Case] = {}
    for case in (answer.case for answer in answers):
        kind = case.operator, frozenset(needs(case))
        if kind not in kinds or case.inputs["query"].size > kinds[kind].inputs["query"].size:
            kinds[kind] = case
    chosen = {case.id for case in kinds.values()}
    return [answer for answer in answers if answer.case.id in chosen]
