"""What a parity run consists of: the packages, and the calls that each of them answers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from linattn_spec.fixtures import Case
from linattn_spec.tolerances import ACCUMULATION

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Package:
    """A package under test, by the name of its framework."""

    framework: str
    distribution: str

    @property
    def adapter(self) -> Path:
        return ROOT / "packages" / self.distribution / "tests" / "adapter.py"


PACKAGES = {
    "numpy": Package("numpy", "linattn-core"),
    "torch": Package("torch", "linattn-torch"),
    "jax": Package("jax", "linattn-jax"),
    "tf": Package("tensorflow", "linattn-tf"),
}

_BOTH_MODES = ("recurrent", "parallel")
_MODES = {"linear_attention": _BOTH_MODES, "kernelized_attention": _BOTH_MODES}


class Call(NamedTuple):
    """One case in one execution mode; "auto" for an operator that has no modes."""

    case: str
    mode: str

    def __str__(self) -> str:
        return self.case if self.mode == "auto" else f"{self.case}, {self.mode}"


def calls(cases: Iterable[Case]) -> Iterator[tuple[Call, Case]]:
    for case in cases:
        for mode in _MODES.get(case.operator, ("auto",)):
            yield Call(case.id, mode), case


def rule(case: Case) -> str:
    """The row of the tables that a case belongs to."""
    match case.operator:
        case "linear_attention" | "linear_attention_step":
            return str(case.arguments.get("update_rule", "linear"))
        case "onnx_linear_attention":
            return str(case.arguments.get("update_rule", "gated_delta"))
        case "kernelized_attention":
            return "kernelized"
        case _:
            return "feature maps"


def dtype(case: Case, tensor: str) -> str:
    """The dtype that a tensor of the case has, and that its tolerance is for."""
    kind, _, name = tensor.partition(".")
    if kind == "gradient":
        return case.inputs[name].dtype.name
    if kind == "output":
        return case.dtype
    if kind == "present_state":
        return case.inputs["past_state"].dtype.name if "past_state" in case.inputs else case.dtype
    return ACCUMULATION[case.dtype]


RULES = ("linear", "gated", "delta", "gated_delta", "kernelized", "feature maps")
DTYPES = ("float64", "float32", "float16", "bfloat16")
