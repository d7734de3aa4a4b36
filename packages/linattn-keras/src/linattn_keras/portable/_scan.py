"""What goes from chunk to chunk, or token to token: sums, or one loop over the rest."""

from collections.abc import Callable

import keras
from keras import ops

from linattn_keras.portable._describe import dtype_name, static_size
from linattn_keras.portable._tokens import Tensor

# body(state, one step of the sequence) -> (state, result); the result is like the state.
Body = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def scan(body: Body, state: Tensor, sequence: Tensor) -> tuple[Tensor, Tensor]:
    """Runs `body` over the first axis; the last state and the stacked results.

    One sequence, and results like the state, are what TensorFlow can do. `body` should be a
    function of a module: one made anew in every call compiles anew on JAX.
    """
    if keras.backend.backend() == "torch" and static_size(sequence.shape[0]) is None:
        # The Python loop that keras.ops.scan is there would fix the T it is traced with.
        raise NotImplementedError(
            "the portable path cannot export a loop over an open T on the torch backend: "
            "install linattn-torch, use the rule 'linear' in parallel, or give T a fixed size"
        )
    return ops.scan(body, state, sequence)


def running_sums(x: Tensor) -> Tensor:
    """The sums of the first 1, 2, 3, ... of `x` along its first axis."""
    if keras.backend.result_type(x.dtype) == dtype_name(x):
        return ops.cumsum(x, axis=0)
    # Where keras.ops.cumsum would round to float32, as it does float64 on torch.
    return scan(_add, ops.zeros_like(x[0]), x)[1]


def _add(state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    state = state + x
    return state, state


def total(x: Tensor) -> Tensor:
    """The sum along the first axis; by pairs, so that zeros at the end change no bit of it."""
    count = static_size(x.shape[0])
    if count is None:
        return ops.sum(x, axis=0)
    while count > 1:
        if count % 2:
            x = ops.concatenate([x, ops.zeros_like(x[:1])], axis=0)
        x = x[0::2] + x[1::2]
        count = x.shape[0]
    return x[0]
