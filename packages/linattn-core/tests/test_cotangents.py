"""Cotangents are checked in the words of the other arguments."""

from functools import partial

import numpy as np
import pytest
from problem import problem
from refusal import refuses

from linattn_core import (
    kernelized_attention_vjp,
    linear_attention_step_vjp,
    linear_attention_vjp,
    onnx_linear_attention_vjp,
    relu_vjp,
)


@pytest.mark.parametrize(
    ("name", "sizes", "message"),
    [
        (
            "output_cotangent",
            (2, 7, 3, 5),
            "output_cotangent must have shape [B, T, max(Hq, Hv), Dv], got [2, 7, 3, 5]: "
            "max(Hq, Hv) is 3, but 6 in output [2, 7, 6, 5]",
        ),
        (
            "output_cotangent",
            (2, 7, 30),
            "output_cotangent must have shape [B, T, max(Hq, Hv), Dv], got [2, 7, 30]",
        ),
        (
            "final_state_cotangent",
            (1, 3, 4, 5),
            "final_state_cotangent must have shape [B, Hv, Dk, Dv], got [1, 3, 4, 5]: "
            "B is 1, but 2 in final_state [2, 3, 4, 5]",
        ),
    ],
)
def test_a_cotangent_has_the_shape_of_its_result(name, sizes, message):
    with refuses(ValueError, message):
        linear_attention_vjp(**problem("linear"), **{name: np.zeros(sizes)})


def test_the_cotangents_of_the_other_operators_do_too():
    token = {name: x[:, 0] for name, x in problem("linear", state=False).items()}
    message = "output_cotangent must have shape [B, max(Hq, Hv), Dv], got [2, 7, 6, 5]"
    with refuses(ValueError, message):
        linear_attention_step_vjp(**token, state=None, output_cotangent=np.zeros((2, 7, 6, 5)))
    tokens = [np.zeros((2, 3, 8), np.float32)] * 3
    heads = dict(q_num_heads=4, kv_num_heads=2, update_rule="linear")
    tokens[0] = np.zeros((2, 3, 16), np.float32)
    message = "output_cotangent must have shape [B, T, q_num_heads * Dv], got [2, 3, 8]: "
    with refuses(ValueError, f"{message}q_num_heads * Dv is 8, but 16 in output [2, 3, 16]"):
        onnx_linear_attention_vjp(*tokens, **heads, output_cotangent=tokens[1])
    message = "present_state_cotangent must have shape [B, kv_num_heads, Dk, Dv], got [2, 3, 8]"
    with refuses(ValueError, message):
        onnx_linear_attention_vjp(*tokens, **heads, present_state_cotangent=tokens[1])
    message = "output_cotangent must have shape [x.shape[0], x.shape[1]], got [2]"
    with refuses(ValueError, message):
        relu_vjp(np.zeros((2, 3)), output_cotangent=np.zeros(2))
    with refuses(TypeError, "output_cotangent must have a floating-point dtype, got int64"):
        relu_vjp(np.zeros(2), output_cotangent=np.zeros(2, np.int64))


def test_the_cotangent_of_a_kernel_state_has_its_structure():
    inputs = problem("linear", state=False)
    vjp = partial(kernelized_attention_vjp, **inputs)
    wanted = "(key_value_state, key_state) with shapes [B, Hv, Dk, Dv] and [B, Hv, Dk]"
    matrix, vector = np.zeros((2, 3, 4, 5)), np.zeros((2, 3, 4))
    with refuses(ValueError, f"final_state_cotangent must be {wanted}, got shape [2, 3, 4, 5]"):
        vjp(causal=True, final_state_cotangent=matrix)
    message = f"final_state_cotangent must be {wanted}, got [2, 3, 5]: "
    with refuses(ValueError, f"{message}Dk is 5, but 4 in final_state [2, 3, 4, 5]"):
        vjp(causal=True, final_state_cotangent=(matrix, matrix[:, :, 0]))
    message = "final_state_cotangent must be None when causal is False, got a tuple of 2"
    with refuses(ValueError, message):
        vjp(causal=False, final_state_cotangent=(matrix, vector))
