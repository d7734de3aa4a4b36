"""The cases that must be refused, operator by operator."""

from collections.abc import Iterator

from linattn_spec.fixtures import Case
from linattn_spec.generate.refused import (
    feature_maps,
    kernelized_attention,
    linear_attention,
    linear_attention_step,
    onnx_linear_attention,
)

_OPERATORS = (
    linear_attention,
    linear_attention_step,
    kernelized_attention,
    onnx_linear_attention,
    feature_maps,
)


def cases() -> Iterator[Case]:
    for operator in _OPERATORS:
        yield from operator.cases()
