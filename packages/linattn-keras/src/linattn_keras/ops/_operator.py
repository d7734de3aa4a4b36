"""How every operator runs: at once on tensors, or as a node of a Functional model."""

from collections.abc import Callable
from typing import Any

import keras

from linattn_keras._dispatch import check_native, implementation
from linattn_keras.ops._specs import SPECS
from linattn_keras.ops._tensors import are_sizes_traced, as_tensors, is_symbolic

Tensors = dict[str, Any]


def run(function: str, tensors: Tensors, arguments: dict[str, Any], native: Any) -> Any:
    """The operator called `function`, on tensors, arrays and variables or on KerasTensors."""
    for name, x in arguments.items():
        if keras.backend.is_keras_tensor(x):
            raise TypeError(f"{name} must not be a KerasTensor, got {x}")
    if is_symbolic(tensors):
        results = Operator(function, arguments, native)(**tensors)
        return (results, None) if _is_stateless(function, arguments) else results
    return _compute(function, tensors, arguments, native)


def _compute(function: str, tensors: Tensors, arguments: dict[str, Any], native: Any) -> Any:
    tensors = {name: as_tensors(name, x) for name, x in tensors.items()}
    module = implementation(native, sizes_are_traced=are_sizes_traced(tensors))
    operator: Callable[..., Any] = getattr(module, function)
    return operator(**tensors, **arguments)


def _is_stateless(function: str, arguments: dict[str, Any]) -> bool:
    """Whether None comes with the output, which a node of a model cannot return."""
    return function == "kernelized_attention" and not arguments["causal"]


@keras.saving.register_keras_serializable(package="linattn")
class Operator(keras.Operation):
    """One call of an operator in a Functional model.

    Args:
        function: the operator's name in `linattn_keras.ops`.
        arguments: those of its arguments that are no tensors.
        native: as in `linattn_keras.ops`. It is not saved.
    """

    def __init__(
        self,
        function: str,
        arguments: dict[str, Any],
        native: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        check_native(native)
        self.function = function
        self.arguments = arguments
        self.native = native

    def call(self, **tensors: Any) -> Any:
        return self._outputs(_compute(self.function, tensors, self.arguments, self.native))

    def compute_output_spec(self, **tensors: Any) -> Any:
        return self._outputs(SPECS[self.function](**tensors, **self.arguments))

    def _outputs(self, results: Any) -> Any:
        return results[0] if _is_stateless(self.function, self.arguments) else results

    def get_config(self) -> dict[str, Any]:
        arguments = keras.saving.serialize_keras_object(self.arguments)
        return {**super().get_config(), "function": self.function, "arguments": arguments}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Operator":
        arguments = keras.saving.deserialize_keras_object(config["arguments"])
        return cls(**{**config, "arguments": arguments})
