"""What the fixtures cannot hold: other objects, other numbers, and the words for them."""

from functools import partial

import numpy as np
import pytest
from problem import RULES, error, problem
from refusal import refuses

import linattn_core
from linattn_core import (
    elu_plus_one,
    kernelized_attention,
    l2_normalize,
    linear_attention,
    linear_attention_step,
    linear_attention_vjp,
    onnx_linear_attention,
    relu,
)

NOT_TENSORS = [
    ([[1.0], [2.0]], "a list of 2"),
    ((1.0,), "a tuple of 1"),
    ("text", "str"),
    (1.0, "float"),
    (None, "None"),
]


def call(**changes):
    return linear_attention(**(problem() | {"update_rule": "gated_delta"} | changes))


def kernel(**changes):
    return kernelized_attention(**(problem("linear", state=False) | changes))


def packed(**changes):
    tokens = {name: np.zeros((2, 3, 8), np.float32) for name in ("query", "key", "value")}
    heads = dict(q_num_heads=2, kv_num_heads=2, update_rule="linear")
    return onnx_linear_attention(**(tokens | heads | changes))


@pytest.mark.parametrize(("given", "what"), NOT_TENSORS, ids=[what for _, what in NOT_TENSORS])
def test_what_is_no_array_is_refused_by_name(given, what):
    for name in ("query", "key", "value"):
        with refuses(TypeError, f"{name} must be a tensor, got {what}"):
            call(**{name: given})
        with refuses(TypeError, f"{name} must be a tensor, got {what}"):
            packed(**{name: given})
    for operator in (elu_plus_one, relu, l2_normalize):
        with refuses(TypeError, f"x must be a tensor, got {what}"):
            operator(given)
    if given is None:
        return
    for name in ("log_decay", "beta", "mask", "segment_ids"):
        with refuses(TypeError, f"{name} must be a tensor, got {what}"):
            call(**{name: given})
    with refuses(ValueError, f"initial_state must have shape [B, Hv, Dk, Dv], got {what}"):
        call(initial_state=given)
    with refuses(TypeError, f"past_state must be a tensor, got {what}"):
        packed(past_state=given)
    with refuses(TypeError, f"output_cotangent must be a tensor, got {what}"):
        linear_attention_vjp(**problem("linear"), output_cotangent=given)


@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_arrays_of_objects_are_refused(name):
    with refuses(TypeError, f"{name} must have a floating-point dtype, got object"):
        call(**{name: np.array([None])})


@pytest.mark.parametrize("given", [True, 2.5, "4", None, np.array(2.5), np.array([4]), np.True_])
def test_a_chunk_size_that_is_no_integer_is_refused(given):
    message = f"chunk_size must be an integer >= 1, got {given!r}"
    for operator in (call, kernel, packed):
        with refuses(TypeError, message):
            operator(chunk_size=given)


@pytest.mark.parametrize("chunk_size", [np.int64(3), np.array(3), np.uint8(3), 2**70])
def test_every_integer_is_a_chunk_size(chunk_size):
    for x, y in zip(call(chunk_size=chunk_size), call(), strict=True):
        assert error(x, y) < 1e-14


@pytest.mark.parametrize("given", ["1", True, 1j, np.complex64(1), np.True_, np.ones(1), [1.0]])
def test_a_scale_or_epsilon_that_is_no_real_number_is_refused(given):
    with refuses(TypeError, f"scale must be a number or None, got {given!r}"):
        call(scale=given)
    with refuses(TypeError, f"scale must be a number, got {given!r}"):
        packed(scale=given)
    message = f"epsilon must be a number >= 0, got {given!r}"
    x = np.ones(2)
    for operator in (kernel, partial(relu, x), partial(l2_normalize, x)):
        with refuses(TypeError, message):
            operator(epsilon=given)


@pytest.mark.parametrize("given", [-1, -1e-9, np.float32(-1), np.array(-1.0), float("nan")])
def test_an_epsilon_below_zero_is_refused(given):
    message = f"epsilon must be a number >= 0, got {given!r}"
    x = np.ones(2)
    for operator in (kernel, partial(relu, x), partial(l2_normalize, x)):
        with refuses(ValueError, message):
            operator(epsilon=given)


@pytest.mark.parametrize("number", [2, np.float32(2), np.array(2.0), np.int8(2)])
def test_every_real_number_is_a_scale_and_an_epsilon(number):
    np.testing.assert_array_equal(call(scale=number)[0], call(scale=2.0)[0])
    np.testing.assert_array_equal(kernel(epsilon=number)[0], kernel(epsilon=2.0)[0])


@pytest.mark.parametrize("name", ["causal", "use_normalizer"])
@pytest.mark.parametrize("given", [1, None, "yes", np.True_])
def test_flags_are_true_or_false(name, given):
    with refuses(TypeError, f"{name} must be True or False, got {given!r}"):
        kernel(**{name: given})


@pytest.mark.parametrize("given", [None, 1, ["linear"], b"linear"])
def test_names_are_strings(given):
    rules = "'linear', 'gated', 'delta', 'gated_delta'"
    for operator in (call, packed):
        with refuses(ValueError, f"update_rule must be one of {rules}, got {given!r}"):
            operator(update_rule=given)
    maps = "'elu_plus_one', 'relu', 'identity' or a callable"
    with refuses(ValueError, f"feature_map must be one of {maps}, got {given!r}"):
        kernel(feature_map=given)
    modes = "'auto', 'parallel', 'recurrent'"
    for operator in (call, kernel):
        with refuses(ValueError, f"execution_mode must be one of {modes}, got {given!r}"):
            operator(execution_mode=given)


@pytest.mark.parametrize(
    ("name", "sizes", "letters", "axis"),
    [
        ("query", (2, 7, 0, 4), "[B, T, Hq, Dk]", "Hq"),
        ("query", (2, 7, 6, 0), "[B, T, Hq, Dk]", "Dk"),
        ("key", (2, 7, 0, 4), "[B, T, Hk, Dk]", "Hk"),
        ("value", (2, 7, 0, 5), "[B, T, Hv, Dv]", "Hv"),
    ],
)
def test_no_heads_and_no_key_width_are_refused(name, sizes, letters, axis):
    message = f"{name} must have shape {letters} with {axis} >= 1, got {list(sizes)}"
    with refuses(ValueError, message):
        call(**{name: np.zeros(sizes)})


def test_a_value_width_of_zero_gives_empty_results():
    output, state = call(value=np.zeros((2, 7, 3, 0)), initial_state=np.zeros((2, 3, 4, 0)))
    assert output.shape == (2, 7, 6, 0)
    assert state.shape == (2, 3, 4, 0)


def test_masks_are_bool_and_segment_ids_are_integers():
    with refuses(TypeError, "mask must have dtype bool, got int64"):
        call(mask=np.ones((2, 7), np.int64))
    with refuses(TypeError, "segment_ids must have an integer dtype, got bool"):
        call(segment_ids=np.ones((2, 7), bool))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint64, np.int64])
def test_segment_ids_of_every_integer_dtype_give_the_same(dtype):
    ids = np.array([[0, 0, 1, 1, 1, 2, 0]] * 2)
    for x, y in zip(call(segment_ids=ids.astype(dtype)), call(segment_ids=ids), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("state", [None, "text", 3, {}])
def test_a_kernel_state_is_a_tuple_or_list_of_arrays(state):
    wanted = (
        "initial_state must be (key_value_state, key_state) "
        "with shapes [B, Hv, Dk, Dv] and [B, Hv, Dk]"
    )
    with refuses(ValueError, f"{wanted}, got a tuple of 2"):
        kernel(causal=True, initial_state=(np.zeros((2, 3, 4, 5)), state))
    if state is not None:
        with refuses(ValueError, f"{wanted}, got {type(state).__name__}"):
            kernel(causal=True, initial_state=state)


def test_a_list_is_as_good_a_kernel_state_as_a_tuple():
    _, state = kernel(causal=True)
    expected, _ = kernel(causal=True, initial_state=state)
    output, _ = kernel(causal=True, initial_state=list(state))
    np.testing.assert_array_equal(output, expected)


@pytest.mark.parametrize("heads", [True, 2.0, 0, -2, None, "2"])
def test_packed_heads_are_positive_integers(heads):
    message = "q_num_heads must be a positive multiple of kv_num_heads, got "
    with refuses(ValueError, f"{message}q_num_heads = {heads!r} and kv_num_heads = 2"):
        packed(q_num_heads=heads)
    with refuses(ValueError, f"{message}q_num_heads = 2 and kv_num_heads = {heads!r}"):
        packed(kv_num_heads=heads)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"query": np.zeros((2, 3, 0), np.float32)},
            "query must have shape [B, T, q_num_heads * Dk], got [2, 3, 0]: q_num_heads is 2",
        ),
        (
            {"value": np.zeros((2, 4, 8), np.float32)},
            "value must have shape [B, T, kv_num_heads * Dv], got [2, 4, 8]: "
            "T is 4, but 3 in query [2, 3, 8]",
        ),
        (
            {"update_rule": "gated", "decay": np.zeros((2, 3, 2, 4), np.float32)},
            "decay must have shape [B, T, kv_num_heads] or [B, T, kv_num_heads * Dk], "
            "got [2, 3, 2, 4]",
        ),
        (
            {"update_rule": "gated", "decay": np.zeros((1, 3, 8), np.float32)},
            "decay must have shape [B, T, kv_num_heads] or [B, T, kv_num_heads * Dk], "
            "got [1, 3, 8]: B is 1, but 2 in query [2, 3, 8]",
        ),
        (
            {"update_rule": "delta", "beta": np.zeros((2, 3, 3), np.float32)},
            "beta must have shape [B, T, kv_num_heads] or [B, T, 1], got [2, 3, 3]: "
            "kv_num_heads is 3, but 2 in kv_num_heads [2]",
        ),
        (
            {"update_rule": "delta"},
            "beta must be given for update_rule 'delta', got None",
        ),
        (
            {"decay": np.zeros((2, 3, 2), np.float32)},
            "decay must be None for update_rule 'linear', got shape [2, 3, 2]",
        ),
        (
            {"past_state": np.zeros((2, 4, 4), np.float32)},
            "past_state must have shape [B, kv_num_heads, Dk, Dv], got [2, 4, 4]",
        ),
    ],
)
def test_packed_shapes_are_refused_in_the_words_of_the_operator(changes, message):
    with refuses(ValueError, message):
        packed(**changes)


def test_a_vector_has_no_axis_to_normalize_when_it_is_a_number():
    with refuses(ValueError, "x must have shape [..., D], got []"):
        l2_normalize(np.array(1.0))
    np.testing.assert_array_equal(elu_plus_one(np.float32(2)), np.float32(3))


@pytest.mark.parametrize("rule", RULES)
def test_a_step_without_a_state_starts_from_zeros(rule):
    inputs = problem(rule, T=1, state=False)
    token = {name: x[:, 0] for name, x in inputs.items()}
    output, state = linear_attention_step(**token, state=None, update_rule=rule)
    zeros = np.zeros((2, 3, 4, 5))
    expected, expected_state = linear_attention_step(**token, state=zeros, update_rule=rule)
    np.testing.assert_array_equal(output, expected)
    np.testing.assert_array_equal(state, expected_state)


@pytest.mark.parametrize("name", linattn_core.__all__)
def test_every_function_is_documented_with_its_shapes_precision_and_errors(name):
    text = getattr(linattn_core, name).__doc__
    for heading in ("Args:", "Returns:", "Raises:"):
        assert heading in text
