"""Dissected behind the checks that a refused call must run into."""

import math
from collections.abc import Sequence
from typing import Any

from linattn_spec.arrays import Arrays
from linattn_spec.linear_attention import UPDATE_RULES
from linattn_spec.mutants.axes import FORMS, STATE, Sizes, spelled
from linattn_spec.mutants.dissected import Dissected, Inputs

FLOATS = ("float16", "bfloat16", "float32", "float64")
OPERATOR_FLOATS = FLOATS[:3]
MODES = ("auto", "parallel", "recurrent")
MAPS = ("elu_plus_one", "relu", "identity")
ONNX = "onnx_linear_attention"
KERNEL = "kernelized_attention"


def what(x: Any) -> str:
    """An argument that should not be there, or not like this."""
    return f"a tuple of {len(x)}" if isinstance(x, tuple) else f"shape {list(x.shape)}"


def kernel_state(parts: Sequence[str]) -> str:
    """What the tuple of these parts of a state must be."""
    names = ", ".join(parts) if len(parts) > 1 else f"{parts[0]},"
    shapes = " and ".join(spelled(*STATE[part]) for part in parts)
    return f"({names}) with shape{'s' if len(parts) > 1 else ''} {shapes}"


class Checked(Dissected):
    """Every check is a method, in which a fault can sit."""

    operators = (*Dissected.every_rule, "elu_plus_one", "relu", "l2_normalize")

    def __call__(
        self,
        operator: str,
        inputs: Inputs,
        arguments: dict[str, Any],
        cotangents: Arrays | None = None,
    ) -> Arrays:
        self.check(operator, inputs, arguments)
        return super().__call__(operator, inputs, arguments, cotangents)

    def check(self, operator: str, inputs: Inputs, arguments: dict[str, Any]) -> None:
        self.options(operator, arguments)
        if operator in FORMS:
            given = self.tensors(operator, inputs, arguments)
            self.dtypes_of(operator, given)
            self.shapes(operator, given, arguments)
        else:
            self.floating("x", inputs["x"].dtype.name, FLOATS)

    def options(self, operator: str, arguments: dict[str, Any]) -> None:
        for name, choices, more in (
            ("update_rule", UPDATE_RULES, ""),
            ("execution_mode", MODES, ""),
            ("feature_map", MAPS, " or a callable"),
        ):
            if name in arguments:
                self.choice(name, arguments[name], choices, more)
        for name in ("causal", "use_normalizer"):
            self.flag(name, arguments.get(name, True))
        self.integer("chunk_size", arguments.get("chunk_size", 1))
        self.number("epsilon", arguments.get("epsilon", 0.0), "a number >= 0", 0)
        if operator == ONNX:
            self.number("scale", arguments.get("scale", 0.0), "a number")
            self.head_counts(arguments["q_num_heads"], arguments["kv_num_heads"])
        elif arguments.get("scale") is not None:
            self.number("scale", arguments["scale"], "a number or None")

    def choice(self, name: str, given: Any, choices: Sequence[str], more: str) -> None:
        if given not in choices:
            raise ValueError(
                f"{name} must be one of {', '.join(map(repr, choices))}{more}, got {given!r}"
            )

    def flag(self, name: str, given: Any) -> None:
        if not isinstance(given, bool):
            raise TypeError(f"{name} must be True or False, got {given!r}")

    def integer(self, name: str, given: Any) -> None:
        if isinstance(given, float):
            raise TypeError(f"{name} must be an integer >= 1, got {given!r}")
        self.number(name, given, "an integer >= 1", 1)

    def number(self, name: str, given: Any, must: str, least: float = -math.inf) -> None:
        if not self.is_number(given):
            raise TypeError(f"{name} must be {must}, got {given!r}")
        if not self.reaches(given, least):
            raise ValueError(f"{name} must be {must}, got {given!r}")

    def is_number(self, given: Any) -> bool:
        return isinstance(given, int | float) and not isinstance(given, bool)

    def reaches(self, given: float, least: float) -> bool:
        return given >= least

    def head_counts(self, queries: int, others: int) -> None:
        if not self.reaches(others, 1) or not self.divides(others, queries):
            raise ValueError(
                "q_num_heads must be a positive multiple of kv_num_heads, "
                f"got q_num_heads = {queries} and kv_num_heads = {others}"
            )

    def divides(self, one: int, other: int) -> bool:
        return other % one == 0

    def tensors(self, operator: str, inputs: Inputs, arguments: dict[str, Any]) -> Arrays:
        """The tensors by name, a kernel attention's state in two, once they may be given."""
        given = dict(inputs)
        if operator == KERNEL:
            self.kernel_state(given, arguments)
            return given
        default = "gated_delta" if operator == ONNX else "linear"
        decay = "decay" if operator == ONNX else "log_decay"
        self.gates(arguments.get("update_rule", default), decay, given)
        for name, x in given.items():
            if isinstance(x, tuple):
                self.no_tuple(name, x)
        return given

    def gates(self, rule: str, decay: str, given: Inputs) -> None:
        for name, needed in ((decay, "gated" in rule), ("beta", "delta" in rule)):
            if needed and name not in given:
                self.lacking(name, rule)
            if not needed and name in given:
                self.unwanted(name, rule, given)

    def lacking(self, name: str, rule: str) -> None:
        raise ValueError(f"{name} must be given for update_rule {rule!r}, got None")

    def unwanted(self, name: str, rule: str, given: Inputs) -> None:
        got = what(given[name])
        raise ValueError(f"{name} must be None for update_rule {rule!r}, got {got}")

    def no_tuple(self, name: str, x: Any) -> None:
        raise ValueError(f"{name} must have shape {spelled('B Hv Dk Dv')}, got {what(x)}")

    def kernel_state(self, given: Inputs, arguments: dict[str, Any]) -> None:
        if "initial_state" not in given:
            return
        state = given.pop("initial_state")
        if not arguments.get("causal", False):
            raise ValueError(f"initial_state must be None when causal is False, got {what(state)}")
        parts = ("key_value_state", "key_state")[: 1 + arguments.get("use_normalizer", True)]
        if not isinstance(state, tuple) or len(state) != len(parts):
            raise ValueError(f"initial_state must be {kernel_state(parts)}, got {what(state)}")
        given |= zip(parts, state, strict=True)

    def dtypes_of(self, operator: str, given: Arrays) -> None:
        first = {"query": given["query"].dtype.name}
        names = first | {name: x.dtype.name for name, x in given.items()}
        taken = OPERATOR_FLOATS if operator == ONNX else FLOATS
        same = ("key", "value", "decay", "beta") if operator == ONNX else ("key", "value")
        for name, dtype in names.items():
            if name == "mask":
                self.kind(name, dtype == "bool", "dtype bool", dtype)
            elif name == "segment_ids":
                self.kind(name, dtype.startswith("int"), "an integer dtype", dtype)
            elif operator != ONNX or name not in same:
                self.floating(name, dtype, taken)
        for name in same:
            if name in names:
                self.same_dtype(name, names[name], names["query"])

    def kind(self, name: str, right: bool, must: str, dtype: str) -> None:
        if not right:
            raise TypeError(f"{name} must have {must}, got {dtype}")

    def floating(self, name: str, dtype: str, taken: Sequence[str]) -> None:
        if dtype not in taken:
            must = "a floating-point dtype"
            if taken == OPERATOR_FLOATS:
                must = "dtype float16, bfloat16 or float32"
            name = "initial_state" if name in ("key_value_state", "key_state") else name
            raise TypeError(f"{name} must have {must}, got {dtype}")

    def same_dtype(self, name: str, dtype: str, query: str) -> None:
        if dtype != query:
            raise TypeError(f"{name} must have the dtype of query, {query}, got {dtype}")

    def shapes(self, operator: str, given: Arrays, arguments: dict[str, Any]) -> None:
        heads = ("q_num_heads", "kv_num_heads")
        sizes = Sizes({name: arguments[name] for name in heads if name in arguments})
        state = kernel_state([part for part in STATE if part in given] or list(STATE))
        for name, forms in FORMS[operator].items():
            if name in given:
                must = f"{name} must have shape {spelled(*forms)}"
                if name in STATE:
                    must = f"initial_state must be {state}"
                self.shape(name, list(given[name].shape), forms, must, sizes)
        if operator != ONNX:
            self.head_ratios(operator, given, sizes)

    def shape(
        self, name: str, given: list[int], forms: Sequence[str], must: str, sizes: Sizes
    ) -> None:
        forms = [form for form in forms if len(form.split()) == len(given)]
        for axis, size in zip(forms[0].split() if forms else (), given, strict=False):
            if axis in ("Hq", "Hk", "Hv", "Dk") and not self.reaches(size, 1):
                raise ValueError(f"{must} with {axis} >= 1, got {given}")
        complaints = [self.complaint(given, form, sizes) for form in forms]
        for form, complaint in zip(forms, complaints, strict=True):
            if not complaint:
                sizes.learn(name, given, form)
                return
        raise ValueError(f"{must}, got {given}{complaints[0] if complaints else ''}")

    def complaint(self, given: list[int], form: str, sizes: Sizes) -> str:
        """Where the shape `given` disagrees with `form`, "" where it does not."""
        for axis, size in zip(form.split(), given, strict=True):
            heads, _, axis = axis.rpartition("*")
            if heads:
                if not self.divides(sizes.size[heads], size):
                    return f": {heads} is {sizes.size[heads]}"
                size //= sizes.size[heads]
            if axis == "1" and size != 1:
                return f": {size} is not 1"
            if axis in sizes.size and not self.agrees(axis, size, sizes.size[axis]):
                return f": {axis} is {size}, but {sizes.at(axis)}"
        return ""

    def agrees(self, axis: str, size: int, known: int) -> bool:
        return size == known

    def head_ratios(self, operator: str, given: Arrays, sizes: Sizes) -> None:
        Hq, Hk, Hv = (sizes.size[axis] for axis in ("Hq", "Hk", "Hv"))
        for name, axis, right, must in (
            ("key", "Hk", self.divides(Hk, Hv), "Hk dividing Hv"),
            (
                "query",
                "Hq",
                self.divides(Hq, Hv) or self.divides(Hv, Hq),
                "Hq dividing Hv or Hv dividing Hq",
            ),
        ):
            if not right:
                raise ValueError(
                    f"{name} must have shape {spelled(*FORMS[operator][name])} with {must}, "
                    f"got {list(given[name].shape)}: {axis} is {sizes.size[axis]}, "
                    f"but Hv is {sizes.at('Hv')}"
                )
