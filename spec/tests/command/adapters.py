"""Adapters, right and wrong, for the command to check."""

import signal
import sys

import numpy as np

from linattn_spec.generate.oracle import oracle

ORACLE = "linattn_spec.generate.oracle.oracle"


def mine(adapter):
    """How the command is told of the adapter of that name in this module."""
    return f"{__name__}:{adapter}"


def three_wrong(operator, inputs, arguments, cotangents=None):
    results = oracle(operator, inputs, arguments, cotangents)
    x = results["final_state"].copy()
    x[0, 2, 3, 1], x[1, 0, 0, 0], x[1, 2, 2, 4] = 8.0, -100.0, 3.0
    return results | {"final_state": x}


def not_a_number(operator, inputs, arguments, cotangents=None):
    results = oracle(operator, inputs, arguments, cotangents)
    return results | {"output": np.full_like(results["output"], np.nan)}


def no_state(operator, inputs, arguments, cotangents=None):
    results = oracle(operator, inputs, arguments, cotangents)
    return {"output": results["output"][None], "gradients": 0}


def ignores_the_mask(operator, inputs, arguments):
    return oracle(operator, inputs | {"mask": None}, arguments)


def forward_only(operator, inputs, arguments):
    return oracle(operator, inputs, arguments)


def sees_no_cotangents(operator, inputs, arguments, cotangents=None):
    assert cotangents is None
    return oracle(operator, inputs, arguments)


def lacks_relu_and_float16(operator, inputs, arguments, cotangents=None):
    if operator == "relu":
        raise NotImplementedError
    if inputs["x"].dtype == np.float16:
        raise NotImplementedError("float16\nis for later")
    return oracle(operator, inputs, arguments, cotangents)


def lacks_everything(operator, inputs, arguments, cotangents=None):
    raise NotImplementedError(operator)


def raises(operator, inputs, arguments, cotangents=None):
    raise ZeroDivisionError("in the third kernel")


def accepts_all(operator, inputs, arguments, cotangents=None):
    return {}


def exits(operator, inputs, arguments, cotangents=None):
    sys.exit(0)


def is_interrupted_in_relu(operator, inputs, arguments, cotangents=None):
    if operator == "relu":
        # A job in the background inherits that this signal is ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)
    return oracle(operator, inputs, arguments, cotangents)


def returns_a_tuple(operator, inputs, arguments, cotangents=None):
    return tuple(oracle(operator, inputs, arguments).values())


def takes_two(operator, inputs):
    return {}


def takes_four(operator, inputs, arguments, cotangents):
    return oracle(operator, inputs, arguments, cotangents)
