"""The docstrings of the NumPy operators, and what is special to TensorFlow."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from linattn_core.documentation import documented_as as document

NOTE = """On TensorFlow: tensors, variables, arrays and nested lists of numbers, in the dtype they
    have. Differentiable in every float argument: eagerly, in a tf.function traced once for every
    B and T, with jit_compile=True and from a SavedModel; a second time, eagerly and in a
    tf.function. On GPUs float32 products are rounded to TensorFloat-32 unless
    tf.config.experimental.enable_tensor_float_32_execution(False) was called: TensorFlow has no
    such switch for a single product."""


def documented_as(original: Callable[..., Any]) -> Callable[[Any], Any]:
    """A decorator, which also keeps AutoGraph out: no branch here depends on a tensor's value,
    and rewriting the package's source would make the first trace several times as long.
    """

    def document_and_keep(operator: Any) -> Any:
        return tf.autograph.experimental.do_not_convert(document(original, NOTE)(operator))

    return document_and_keep
