"""The mask that Keras carries with a tensor."""

from typing import Any

import keras


class AttachedMask(keras.layers.Layer):
    """Returns its inputs and the mask that Keras carries with them, or None.

    Keras hands an attached mask to a layer that is called with one tensor alone, and knows it
    of tensors too that cannot have attributes, as while JAX traces.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.autocast = False
        self.built = True

    def call(self, inputs: Any, mask: Any = None) -> tuple[Any, Any]:
        return inputs, mask
