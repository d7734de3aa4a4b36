"""Programs of the portable operators whose batch and number of tokens are left open."""

import keras
import numpy as np
import pytest

from linattn_keras import ops

BACKEND = keras.backend.backend()
CHUNK = 8
LENGTHS = (1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5)
# In float32, and of other sums than an eager call takes.
TOLERANCE = 5e-6


def program(function, inputs):
    """`function` of a dict of tensors, traced once, for any batch and number of tokens."""
    return {"jax": jax_program, "tensorflow": tf_program, "torch": torch_program}[BACKEND](
        function, inputs
    )


def jax_program(function, inputs):
    import jax

    batch, tokens = jax.export.symbolic_shape("batch, tokens")
    shapes = {
        name: jax.ShapeDtypeStruct((batch, tokens, *x.shape[2:]), x.dtype)
        for name, x in inputs.items()
    }
    return jax.export.export(jax.jit(function))(shapes).call


def tf_program(function, inputs):
    import tensorflow as tf

    signature = {
        name: tf.TensorSpec([None, None, *x.shape[2:]], x.dtype) for name, x in inputs.items()
    }
    return tf.function(function, input_signature=[signature])


def torch_program(function, inputs):
    import torch

    class Module(torch.nn.Module):
        def forward(self, inputs):
            return function(inputs)

    tensors = {name: torch.from_numpy(x) for name, x in inputs.items()}
    open_axes = (torch.export.Dim.DYNAMIC, torch.export.Dim.DYNAMIC)
    dynamic = {"inputs": {name: dict(enumerate(open_axes)) for name in inputs}}
    return torch.export.export(Module(), (tensors,), dynamic_shapes=dynamic).module()


def draw(rule, tokens, batch=2):
    rng = np.random.default_rng(tokens)
    key = rng.normal(size=(batch, tokens, 2, 4))
    inputs = {
        "query": rng.normal(size=(batch, tokens, 2, 4)),
        "key": key / np.linalg.norm(key, axis=-1, keepdims=True),
        "value": rng.normal(size=(batch, tokens, 2, 3)),
    }
    if "gated" in rule:
        inputs["log_decay"] = -rng.uniform(size=(batch, tokens, 2, 4))
    if "delta" in rule:
        inputs["beta"] = rng.uniform(size=(batch, tokens, 2))
    return {name: x.astype("float32") for name, x in inputs.items()}


def function_of(rule, mode):
    """The operator as a function of its tensors, with a list of results."""
    if rule in ("causal", "whole"):

        def results(inputs):
            output, state = ops.kernelized_attention(
                **inputs, causal=rule == "causal", chunk_size=CHUNK, native=False
            )
            return [output, *(state or ())]

        return results
    return lambda inputs: list(
        ops.linear_attention(
            **inputs, update_rule=rule, execution_mode=mode, chunk_size=CHUNK, native=False
        )
    )


LOOPS = [(rule, "parallel") for rule in ("gated", "delta", "gated_delta")]
LOOPS += [(rule, "recurrent") for rule in ("linear", "gated", "delta", "gated_delta")]
SUMS = [("linear", "parallel"), ("causal", "parallel"), ("whole", "parallel")]


@pytest.mark.parametrize(("rule", "mode"), SUMS if BACKEND == "torch" else SUMS + LOOPS)
def test_one_program_serves_every_size(rule, mode):
    function = function_of(rule, mode)
    run = program(function, draw(rule, 3 * CHUNK + 1, batch=3))
    for tokens in LENGTHS:
        inputs = draw(rule, tokens)
        tensors = {name: keras.ops.convert_to_tensor(x) for name, x in inputs.items()}
        for got, expected in zip(run(tensors), function(inputs), strict=True):
            got, expected = map(keras.ops.convert_to_numpy, (got, expected))
            np.testing.assert_allclose(got, expected, 0, TOLERANCE * np.abs(expected).max())


if BACKEND == "torch":

    @pytest.mark.parametrize(("rule", "mode"), LOOPS)
    def test_a_loop_that_torch_would_unroll_is_refused(rule, mode):
        with pytest.raises(NotImplementedError, match="linattn-torch"):
            program(function_of(rule, mode), draw(rule, 3 * CHUNK + 1, batch=3))
