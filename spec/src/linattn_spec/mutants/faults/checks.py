"""Faults in the checks of a call, tried on the calls that must be refused."""

import math
from collections.abc import Sequence
from typing import Any

from linattn_spec.mutants.axes import Sizes
from linattn_spec.mutants.checked import Checked
from linattn_spec.mutants.dissected import Dissected, Inputs
from linattn_spec.mutants.table import mutant


class InChecks(Checked):
    in_checks = True


@mutant
class NothingChecked(Dissected):
    """Nothing is checked."""

    operators = Checked.operators
    in_checks = True


@mutant
class ErrorsWithoutDetails(InChecks):
    """Errors do not say what was given."""

    def check(self, operator: str, inputs: Inputs, arguments: dict[str, Any]) -> None:
        try:
            super().check(operator, inputs, arguments)
        except (TypeError, ValueError) as error:
            raise type(error)(str(error).partition(", got")[0]) from error


@mutant
class EveryErrorIsAValueError(InChecks):
    """A wrong dtype is a ValueError like all others."""

    def check(self, operator: str, inputs: Inputs, arguments: dict[str, Any]) -> None:
        try:
            super().check(operator, inputs, arguments)
        except TypeError as error:
            raise ValueError(str(error)) from error


@mutant
class UnknownChoiceIsDefault(InChecks):
    """An unknown rule, mode or map is taken for the default."""

    def choice(self, name: str, given: Any, choices: Sequence[str], more: str) -> None:
        pass


@mutant
class NumbersConverted(InChecks):
    """Whatever int() and float() take is a number."""

    def integer(self, name: str, given: Any) -> None:
        super().integer(name, int(given))

    def number(self, name: str, given: Any, must: str, least: float = -math.inf) -> None:
        super().number(name, float(given or 0), must, least)


@mutant
class AnyNumberTaken(InChecks):
    """Numbers and sizes that are too small are not refused."""

    def reaches(self, given: float, least: float) -> bool:
        return True


@mutant
class BooleansAreNumbers(InChecks):
    """True and False are the numbers 1 and 0."""

    def is_number(self, given: Any) -> bool:
        return isinstance(given, int | float)


@mutant
class FlagsByTruth(InChecks):
    """A flag may be whatever has a truth value."""

    def flag(self, name: str, given: Any) -> None:
        pass


@mutant
class LackingGateIsNeutral(InChecks):
    """A gate that the rule needs and lacks is neutral."""

    def lacking(self, name: str, rule: str) -> None:
        pass


@mutant
class UnwantedGateIgnored(InChecks):
    """A gate that the rule does not take is ignored."""

    def unwanted(self, name: str, rule: str, given: Inputs) -> None:
        del given[name]


@mutant
class IntegersTaken(InChecks):
    """Integers are converted to floats."""

    def floating(self, name: str, dtype: str, taken: Sequence[str]) -> None:
        if not dtype.startswith("int"):
            super().floating(name, dtype, taken)


@mutant
class ImaginaryPartDropped(InChecks):
    """Of complex numbers the real part is taken."""

    def floating(self, name: str, dtype: str, taken: Sequence[str]) -> None:
        if not dtype.startswith("complex"):
            super().floating(name, dtype, taken)

    def same_dtype(self, name: str, dtype: str, query: str) -> None:
        if not dtype.startswith("complex"):
            super().same_dtype(name, dtype, query)


@mutant
class DtypesPromoted(InChecks):
    """Inputs of different dtypes are promoted to the wider one."""

    def same_dtype(self, name: str, dtype: str, query: str) -> None:
        pass


@mutant
class OperatorTakesAnyDtype(InChecks):
    """The ONNX operator takes dtypes that its text does not list."""

    operators = ("onnx_linear_attention",)

    def floating(self, name: str, dtype: str, taken: Sequence[str]) -> None:
        pass


@mutant
class MaskOfAnyDtype(InChecks):
    """Masks and segment ids may have any dtype."""

    def kind(self, name: str, right: bool, must: str, dtype: str) -> None:
        pass


@mutant
class RankUnchecked(InChecks):
    """A shape with too few or too many axes is left to the computation."""

    def shape(
        self, name: str, given: list[int], forms: Sequence[str], must: str, sizes: Sizes
    ) -> None:
        if len(given) in {len(form.split()) for form in forms}:
            super().shape(name, given, forms, must, sizes)


@mutant
class SizeOneBroadcasts(InChecks):
    """A size of 1 is broadcast."""

    def agrees(self, axis: str, size: int, known: int) -> bool:
        return size == 1 or super().agrees(axis, size, known)


class AxisUnchecked(InChecks):
    axes: tuple[str, ...]

    def agrees(self, axis: str, size: int, known: int) -> bool:
        return axis in self.axes or super().agrees(axis, size, known)


@mutant
class BatchUnchecked(AxisUnchecked):
    """The sizes of the batch need not agree."""

    axes = ("B",)


@mutant
class LengthUnchecked(AxisUnchecked):
    """The lengths need not agree."""

    axes = ("T",)


@mutant
class HeadCountUnchecked(AxisUnchecked):
    """Gates and state may have another number of heads than the value."""

    axes = ("Hv", "kv_num_heads")


@mutant
class KeySizeUnchecked(AxisUnchecked):
    """The sizes of the keys need not agree."""

    axes = ("Dk",)


@mutant
class ValueSizeUnchecked(AxisUnchecked):
    """The state need not have the size of the values."""

    axes = ("Dv",)


@mutant
class TransposedStateTaken(InChecks):
    """A state [Dv, Dk] is as welcome as one [Dk, Dv]."""

    def shape(
        self, name: str, given: list[int], forms: Sequence[str], must: str, sizes: Sizes
    ) -> None:
        if name.endswith("state") and given[2:] == [sizes.size["Dv"], sizes.size["Dk"]]:
            given = [*given[:2], *given[:1:-1]]
        super().shape(name, given, forms, must, sizes)


@mutant
class HeadsNeedNotDivide(InChecks):
    """Numbers of heads need not be multiples of each other."""

    def divides(self, one: int, other: int) -> bool:
        return True


@mutant
class StateStructureUnchecked(InChecks):
    """A state in another structure than the operator's is left to the computation."""

    def no_tuple(self, name: str, x: Any) -> None:
        pass

    def kernel_state(self, given: Inputs, arguments: dict[str, Any]) -> None:
        state = given.get("initial_state")
        if isinstance(state, tuple) and len(state) == 1 + arguments.get("use_normalizer", True):
            super().kernel_state(given, {**arguments, "causal": True})
        else:
            given.pop("initial_state", None)
