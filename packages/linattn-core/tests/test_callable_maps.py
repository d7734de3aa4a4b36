"""Feature maps that a caller brings along."""

import numpy as np
import pytest
from problem import MODES, problem
from refusal import refuses

from linattn_core import kernelized_attention, kernelized_attention_vjp


def widen(x):
    return np.concatenate([np.exp(x), np.exp(-x)], axis=-1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("causal", [False, True])
def test_a_callable_map_may_change_the_key_width(causal, mode):
    inputs = problem("linear", state=False)
    output, state = kernelized_attention(
        **inputs, feature_map=widen, causal=causal, execution_mode=mode
    )
    mapped = inputs | {"query": widen(inputs["query"]), "key": widen(inputs["key"])}
    expected, expected_state = kernelized_attention(
        **mapped, feature_map="identity", causal=causal, execution_mode=mode
    )
    np.testing.assert_array_equal(output, expected)
    if causal:
        assert state[0].shape == (2, 3, 8, 5)
        np.testing.assert_array_equal(state[1], expected_state[1])
        again, _ = kernelized_attention(
            **inputs, feature_map=widen, causal=True, execution_mode=mode, initial_state=state
        )
        assert again.shape == output.shape
        message = "initial_state must have shape [B, Hv, Dk, Dv], got [2, 3, 4, 5]: "
        with refuses(ValueError, f"{message}Dk is 4, but 8 in feature_map(query) [2, 7, 6, 8]"):
            kernelized_attention(
                **inputs,
                feature_map=widen,
                causal=True,
                initial_state=(np.zeros((2, 3, 4, 5)), np.zeros((2, 3, 4))),
            )


@pytest.mark.parametrize(
    ("feature_map", "error_class", "message"),
    [
        (lambda x: None, TypeError, "feature_map(query) must be a tensor, got None"),
        (
            lambda x: x > 0,
            TypeError,
            "feature_map(query) must have a floating-point dtype, got bool",
        ),
        (
            lambda x: x.sum(axis=-1),
            ValueError,
            "feature_map(query) must have shape [B, T, Hq, Dk], got [2, 7, 6]",
        ),
        (
            lambda x: x[:, 1:],
            ValueError,
            "feature_map(query) must have shape [B, T, Hq, Dk], got [2, 6, 6, 4]: "
            "T is 6, but 7 in query [2, 7, 6]",
        ),
        (
            lambda x: x if x.shape[2] == 6 else x[..., 1:],
            ValueError,
            "feature_map(key) must have shape [B, T, Hk, Dk], got [2, 7, 1, 3]: "
            "Dk is 3, but 4 in feature_map(query) [2, 7, 6, 4]",
        ),
    ],
    ids=["nothing", "bool", "rank", "tokens", "widths"],
)
def test_a_callable_map_keeps_all_axes_but_the_last(feature_map, error_class, message):
    with refuses(error_class, message):
        kernelized_attention(**problem("linear", state=False), feature_map=feature_map)
    with refuses(error_class, message):
        kernelized_attention_vjp(
            **problem("linear", state=False),
            feature_map=feature_map,
            feature_map_vjp=lambda x, cotangent: cotangent,
        )


def test_a_derivative_is_given_for_a_callable_map_and_for_no_other():
    inputs = problem("linear", state=False)
    with refuses(ValueError, "feature_map_vjp must be given for a callable feature_map, got None"):
        kernelized_attention_vjp(**inputs, feature_map=np.exp)
    message = "feature_map_vjp must be None for feature_map 'relu', got function"
    with refuses(ValueError, message):
        kernelized_attention_vjp(**inputs, feature_map="relu", feature_map_vjp=lambda x, c: c)
