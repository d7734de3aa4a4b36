"""Keras' own test of a layer. This is the one place that reaches into `keras.src`."""

from typing import Any

from keras.src.testing import TestCase

from linattn_keras import LinearAttention


def run_layer_test(arguments: dict[str, Any], **expectations: Any) -> None:
    """Builds, calls, serializes, trains and quantizes to half precision a LinearAttention.

    Args:
        arguments: of the layer's constructor.
        **expectations: as Keras' own layers' tests give them: `input_shape`, `call_kwargs`,
            `expected_output_shape`, `expected_num_losses`, ...
    """
    case = TestCase()
    try:
        case.run_layer_test(LinearAttention, arguments, **expectations)
    finally:
        case.doCleanups()
