"""NumPy derives no gradients: a function and its own gradient are given instead."""

import numpy as np


def use(threads):
    """OMP_NUM_THREADS, in the environment, is all that NumPy's matrix products ask."""


def forward(function, inputs, dtype):
    given = _tensors(inputs)
    return lambda: function(given)


def gradient(function, inputs, cotangents, dtype, *, vjp):
    given, incoming = _tensors(inputs), _tensors(cotangents)

    def call():
        gradients = vjp(given, incoming)
        return function(given) | {f"gradient.{name}": gradients[name] for name in given}

    return call


def step(function, inputs, dtype):
    given = _tensors(inputs)
    batch, tokens, heads, width = given["query"].shape
    each = [{name: x[:, t] for name, x in given.items()} for t in range(tokens)]

    def call(state=None):
        if state is None:
            state = np.zeros((batch, heads, width, width), given["query"].dtype)
        for token in each:
            output, state = function(token, state)
        return {"last_output": output, "final_state": state}

    return call


def arrays(results):
    return results


def _tensors(arrays):
    return {name: np.array(x) for name, x in arrays.items()}
