"""The definitions say what they are meant to, and their written-out gradients are theirs."""

import numpy as np
import pytest

from linattn_spec import (
    UPDATE_RULES,
    complex_step_vjp,
    elu_plus_one,
    kernelized_attention,
    kernelized_attention_vjp,
    l2_normalize,
    l2_normalize_vjp,
    linear_attention,
    linear_attention_step,
    linear_attention_vjp,
    onnx_linear_attention,
    onnx_linear_attention_vjp,
    relu,
)
from linattn_spec.conformance import check_case
from linattn_spec.feature_maps import elu_plus_one_derivative, feature_map, relu_derivative
from linattn_spec.generate.onnx_examples import EXAMPLES
from linattn_spec.generate.oracle import oracle

HALF = np.log(0.5)


def tokens(*rows):
    """One head of one batch entry, [1, T, 1, D]."""
    return np.array(rows, float)[None, :, None, :]


def gates(*values):
    """One head of one batch entry, [1, T, 1]."""
    return np.array(values, float)[None, :, None]


def scalar(update_rule, key, value, state, **gate):
    """One token with Dk = Dv = 1, query 1 and scale 1: what is read."""
    output, _ = linear_attention(
        tokens([1]), tokens([key]), tokens([value]), update_rule=update_rule, scale=1.0,
        initial_state=np.full((1, 1, 1, 1), state), **gate,
    )  # fmt: skip
    return output.item()


def test_linear_adds_outer_products():
    output, state = linear_attention(
        tokens([1, 0], [1, 1]), tokens([1, 0], [2, 1]), tokens([2, 3], [5, 7]), scale=1.0
    )
    np.testing.assert_array_equal(output[0, :, 0], [[2, 3], [2 + 10 + 5, 3 + 14 + 7]])
    np.testing.assert_array_equal(state[0, 0], [[12, 17], [5, 7]])


def test_the_default_scale_is_one_over_the_root_of_dk():
    output, _ = linear_attention(tokens([2, 0, 0, 0]), tokens([1, 0, 0, 0]), tokens([3]))
    assert output.item() == 3.0


def test_scale_0_is_not_the_default():
    output, _ = linear_attention(tokens([2]), tokens([1]), tokens([3]), scale=0.0)
    assert output.item() == 0.0


def test_gated_decays_before_it_writes():
    assert scalar("gated", 1, 5, 4, log_decay=gates(HALF)) == pytest.approx(0.5 * 4 + 5)


def test_delta_replaces_what_the_key_reads():
    assert scalar("delta", 1, 5, 4, beta=gates(1)) == 5
    assert scalar("delta", 1, 5, 4, beta=gates(0.5)) == 4 + 0.5 * (5 - 4)
    assert scalar("delta", 1, 5, 4, beta=gates(2)) == 4 + 2 * (5 - 4)


def test_gated_delta_takes_the_error_from_the_decayed_state():
    read = scalar("gated_delta", 1, 0, 4, log_decay=gates(HALF), beta=gates(0.5))
    assert read == pytest.approx(2 + 0.5 * (0 - 2))


def test_gates_per_key_decay_the_rows_of_the_state():
    _, state = linear_attention(
        tokens([0, 0]), tokens([0, 0]), tokens([0, 0, 0]), update_rule="gated",
        log_decay=np.array([[[[-np.inf, 0.0]]]]), initial_state=np.ones((1, 1, 2, 3)),
    )  # fmt: skip
    np.testing.assert_array_equal(state[0, 0], [[0, 0, 0], [1, 1, 1]])


def test_a_masked_token_changes_nothing_whatever_it_holds():
    output, state = linear_attention(
        tokens([1], [np.nan], [1]), tokens([1], [np.inf], [1]), tokens([2], [np.nan], [3]),
        update_rule="gated", log_decay=gates(0, -5, 0), scale=1.0, mask=[[True, False, True]],
    )  # fmt: skip
    np.testing.assert_array_equal(output.ravel(), [2, 0, 5])
    assert state.item() == 5


def test_a_segment_starts_from_zero_and_the_first_from_the_given_state():
    output, state = linear_attention(
        tokens([1], [1], [1], [1]), tokens([1], [1], [1], [1]), tokens([1], [2], [4], [8]),
        scale=1.0, initial_state=np.full((1, 1, 1, 1), 100.0), segment_ids=[[7, 7, 3, 7]],
    )  # fmt: skip
    np.testing.assert_array_equal(output.ravel(), [101, 103, 4, 8])
    assert state.item() == 8


def test_a_segment_starts_also_at_a_masked_token():
    output, _ = linear_attention(
        tokens([1], [1], [1]), tokens([1], [1], [1]), tokens([1], [2], [4]),
        scale=1.0, mask=[[True, False, True]], segment_ids=[[0, 1, 1]],
    )  # fmt: skip
    np.testing.assert_array_equal(output.ravel(), [1, 0, 4])


def test_neighbours_share_a_query_key_or_state():
    query = np.arange(1.0, 5.0).reshape(1, 1, 4, 1)  # two queries to a state
    key = np.full((1, 1, 1, 1), 1.0)  # one key for both states
    value = np.array([10.0, 100.0]).reshape(1, 1, 2, 1)
    output, _ = linear_attention(query, key, value, scale=1.0)
    np.testing.assert_array_equal(output.ravel(), [10, 20, 300, 400])
    value = np.array([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 4, 1)
    output, _ = linear_attention(query[:, :, :2], key, value, scale=1.0)  # two states to a query
    np.testing.assert_array_equal(output.ravel(), [1, 2, 6, 8])


def test_a_step_is_one_token():
    random = np.random.RandomState(0)
    q, k, v = (random.randn(2, 1, 3, d) for d in (4, 4, 5))
    state, beta = random.randn(2, 3, 4, 5), random.rand(2, 1, 3)
    output, final = linear_attention(
        q, k, v, update_rule="delta", beta=beta, initial_state=state, scale=0.5
    )
    step, next_state = linear_attention_step(
        q[:, 0], k[:, 0], v[:, 0], state, update_rule="delta", beta=beta[:, 0], scale=0.5
    )
    np.testing.assert_array_equal(step, output[:, 0])
    np.testing.assert_array_equal(next_state, final)


def test_kernel_attention_averages_values_by_mapped_keys():
    query, key, value = tokens([1], [1]), tokens([1], [3]), tokens([2], [6])
    arguments = dict(feature_map="identity", epsilon=0.0)
    causal, (matrix, normalizer) = kernelized_attention(query, key, value, causal=True, **arguments)
    np.testing.assert_array_equal(causal.ravel(), [2, (2 + 18) / 4])
    assert (matrix.item(), normalizer.item()) == (20, 4)
    whole, state = kernelized_attention(query, key, value, **arguments)
    np.testing.assert_array_equal(whole.ravel(), [5, 5])
    assert state is None


def test_epsilon_is_added_to_the_denominator():
    output, _ = kernelized_attention(
        tokens([1]), tokens([1]), tokens([3]), feature_map="identity", epsilon=0.5
    )
    assert output.item() == 2.0


def test_feature_maps_at_exact_points():
    x = np.array([-np.inf, 0.0, 2.0, 800.0])
    np.testing.assert_array_equal(elu_plus_one(x), [0, 1, 3, 801])
    np.testing.assert_array_equal(elu_plus_one_derivative(x), [0, 1, 1, 1])
    np.testing.assert_array_equal(relu(x, 0.5), [0.5, 0.5, 2.5, 800.5])
    np.testing.assert_array_equal(relu_derivative(x), [0, 0, 1, 1])
    np.testing.assert_array_equal(l2_normalize(np.array([3.0, 4.0]), 0.0), [0.6, 0.8])
    np.testing.assert_array_equal(l2_normalize(np.zeros(3)), np.zeros(3))


def test_the_gradient_of_a_gate_of_minus_infinity_is_exactly_zero():
    gradient = linear_attention_vjp(
        tokens([1], [1]), tokens([1], [1]), tokens([1], [1]), update_rule="gated",
        log_decay=gates(-np.inf, -np.inf), output_cotangent=tokens([1], [1]),
        final_state_cotangent=np.ones((1, 1, 1, 1)), initial_state=np.ones((1, 1, 1, 1)),
    )  # fmt: skip
    np.testing.assert_array_equal(gradient["log_decay"], 0)
    np.testing.assert_array_equal(gradient["initial_state"], 0)


@pytest.mark.parametrize("case", EXAMPLES, ids=lambda case: case.id)
def test_the_definitions_give_the_numbers_printed_for_onnx(case):
    check_case(case, oracle)


def test_all_17_printed_examples_are_there():
    assert len({case.id for case in EXAMPLES}) == 17
    assert [case.dtype for case in EXAMPLES].count("float16") == 1


def assert_gradients_agree(function, inputs, gradient, cotangents):
    expected = complex_step_vjp(function, inputs, cotangents)
    assert set(expected) == set(inputs)
    for name, slopes in expected.items():
        worst = np.max(np.abs(gradient[name] - slopes)) / np.max(np.abs(slopes))
        assert worst < 1e-13, f"{name}: {worst:.1e}"


GROUPINGS = {"grouped-queries": (4, 1, 2), "grouped-keys": (4, 2, 4), "grouped-values": (2, 1, 4)}
EXTRAS = {
    "plain": {},
    "mask": {"mask": [[True, False, True, True, False]]},
    "segments": {"segment_ids": [[0, 0, 1, 0, 0]]},
    "both": {"mask": [[True, True, False, True, True]], "segment_ids": [[0, 0, 1, 1, 2]]},
}


def small_inputs(update_rule, heads, per_key, T=5, Dk=3, Dv=2):
    Hq, Hk, Hv = heads
    random = np.random.RandomState(7)
    inputs = {
        "query": random.randn(1, T, Hq, Dk),
        "key": random.randn(1, T, Hk, Dk) / 2,
        "value": random.randn(1, T, Hv, Dv),
        "initial_state": random.randn(1, Hv, Dk, Dv),
    }
    if update_rule.startswith("gated"):
        inputs["log_decay"] = -random.rand(1, T, Hv, Dk) if per_key else -random.rand(1, T, Hv)
    if update_rule.endswith("delta"):
        inputs["beta"] = random.rand(1, T, 1 if per_key else Hv)
    cotangents = (random.randn(1, T, max(Hq, Hv), Dv), random.randn(1, Hv, Dk, Dv))
    return inputs, cotangents


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("per_key", [False, True], ids=["per-head", "per-key"])
@pytest.mark.parametrize("update_rule", UPDATE_RULES)
def test_the_reverse_recurrence_is_the_derivative(update_rule, per_key, extra):
    grouping = list(GROUPINGS.values())[UPDATE_RULES.index(update_rule) % 3]
    inputs, cotangents = small_inputs(update_rule, grouping, per_key)
    arguments = {"update_rule": update_rule, "scale": 0.7} | EXTRAS[extra]
    gradient = linear_attention_vjp(
        **inputs, **arguments, output_cotangent=cotangents[0], final_state_cotangent=cotangents[1]
    )
    assert_gradients_agree(
        lambda **x: linear_attention(**x, **arguments), inputs, gradient, cotangents
    )


@pytest.mark.parametrize("heads", GROUPINGS.values(), ids=GROUPINGS)
def test_the_reverse_recurrence_sums_over_shared_heads(heads):
    inputs, cotangents = small_inputs("gated_delta", heads, per_key=False)
    gradient = linear_attention_vjp(
        **inputs, update_rule="gated_delta",
        output_cotangent=cotangents[0], final_state_cotangent=cotangents[1],
    )  # fmt: skip
    assert_gradients_agree(
        lambda **x: linear_attention(**x, update_rule="gated_delta"), inputs, gradient, cotangents
    )


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("normalized", [True, False], ids=["normalized", "plain"])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "whole"])
@pytest.mark.parametrize("name", ["elu_plus_one", "relu", "identity"])
def test_the_gradient_of_kernel_attention_is_the_derivative(name, causal, normalized, extra):
    grouping = list(GROUPINGS.values())[list(EXTRAS).index(extra) % 3]
    inputs, cotangents = small_inputs("linear", grouping, per_key=False)
    if name == "identity":
        inputs = {argument: np.abs(x) + 0.1 for argument, x in inputs.items()}
    matrix = inputs.pop("initial_state")
    state = {}
    if causal:
        state["S"] = np.abs(matrix)
        if normalized:
            state["Z"] = np.random.RandomState(8).rand(*matrix.shape[:3])
            cotangents = (*cotangents, np.random.RandomState(9).randn(*matrix.shape[:3]))
    else:
        cotangents = cotangents[:1]
    arguments = dict(
        feature_map=name, causal=causal, use_normalizer=normalized, epsilon=1e-3, **EXTRAS[extra]
    )

    def results(query, key, value, **state):
        output, final = kernelized_attention(
            query, key, value, initial_state=tuple(state.values()) or None, **arguments
        )
        return (output, *(final or ()))

    gradient = kernelized_attention_vjp(
        **inputs, **arguments, initial_state=tuple(state.values()) or None,
        output_cotangent=cotangents[0], final_state_cotangent=cotangents[1:] or None,
    )  # fmt: skip
    gradient |= dict(zip(state, gradient.get("initial_state", ()), strict=True))
    assert_gradients_agree(results, inputs | state, gradient, cotangents)


def test_the_gradient_of_the_onnx_packing_is_the_derivative():
    random = np.random.RandomState(3)
    inputs = {
        "query": random.randn(2, 3, 4 * 2),
        "key": random.randn(2, 3, 2 * 2) / 2,
        "value": random.randn(2, 3, 2 * 3),
        "past_state": random.randn(2, 2, 2, 3),
        "decay": -random.rand(2, 3, 2 * 2),
        "beta": random.rand(2, 3, 1),
    }
    cotangents = (random.randn(2, 3, 4 * 3), random.randn(2, 2, 2, 3))
    heads = dict(q_num_heads=4, kv_num_heads=2)
    gradient = onnx_linear_attention_vjp(
        **inputs, **heads, output_cotangent=cotangents[0], present_state_cotangent=cotangents[1]
    )
    assert_gradients_agree(
        lambda **x: onnx_linear_attention(**x, **heads), inputs, gradient, cotangents
    )


@pytest.mark.parametrize("name", ["elu_plus_one", "relu", "identity"])
def test_the_derivative_of_a_feature_map_is_its_own(name):
    function, derivative = feature_map(name, 1e-6)
    x, cotangent = np.random.RandomState(1).randn(2, 4, 5)
    assert_gradients_agree(
        lambda x: (function(x),), {"x": x}, {"x": cotangent * derivative(x)}, (cotangent,)
    )


@pytest.mark.parametrize("size", [1.0, 1e-3, 0.0], ids=["usual", "small", "zero"])
def test_the_gradient_of_l2_normalize_is_the_derivative(size):
    x, cotangent = np.random.RandomState(2).randn(2, 4, 3)
    gradient = l2_normalize_vjp(size * x, cotangent)
    assert_gradients_agree(
        lambda x: (l2_normalize(x),), {"x": size * x}, {"x": gradient}, (cotangent,)
    )
