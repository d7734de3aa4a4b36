"""What a parity run consists of: the packages, and the calls that each of them answers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from linattn_spec.conformance import result_dtype
from linattn_spec.fixtures import Case

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Package:
    """A package under test: what it computes with, and how its adapter is called.

    `distributions` are those whose versions a result states; the first has the adapter.
    """

    distributions: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def adapter(self) -> Path:
        return ROOT / "packages" / self.distributions[0] / "tests" / "adapter.py"


def _keras(backend: str, native: bool) -> Package:
    distributions = ("linattn-keras", "keras", backend)
    return Package(distributions, {"KERAS_BACKEND": backend}, {"native": native})


PACKAGES = {
    "numpy": Package(("linattn-core", "numpy")),
    "torch": Package(("linattn-torch", "torch")),
    "jax": Package(("linattn-jax", "jax")),
    "tf": Package(("linattn-tf", "tensorflow")),
    "keras-torch": _keras("torch", native=True),
    "keras-jax": _keras("jax", native=True),
    "keras-tf": _keras("tensorflow", native=True),
    "keras-torch-portable": _keras("torch", native=False),
    "keras-jax-portable": _keras("jax", native=False),
    "keras-tf-portable": _keras("tensorflow", native=False),
}

_BOTH_MODES = ("recurrent", "parallel")
_MODES = {"linear_attention": _BOTH_MODES, "kernelized_attention": _BOTH_MODES}


class Call(NamedTuple):
    """One case in one execution mode; "auto" where there are none or the case names its own."""

    case: str
    mode: str

    def __str__(self) -> str:
        return self.case if self.mode == "auto" else f"{self.case}, {self.mode}"


def calls(cases: Iterable[Case]) -> Iterator[tuple[Call, Case]]:
    for case in cases:
        named = "execution_mode" in case.arguments
        for mode in ("auto",) if named else _MODES.get(case.operator, ("auto",)):
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
    return case.inputs[name].dtype.name if kind == "gradient" else result_dtype(case, tensor)


RULES = ("linear", "gated", "delta", "gated_delta", "kernelized", "feature maps")
DTYPES = ("float64", "float32", "float16", "bfloat16")
