"""What the fixtures cannot hold: other containers, unknown shapes, sizes seen only at run time."""

import re

import numpy as np
import pytest
import tensorflow as tf
from problem import problem, signature

import linattn_tf
from linattn_tf import elu_plus_one, kernelized_attention, linear_attention, onnx_linear_attention


def call(inputs, **arguments):
    return linear_attention(**inputs, update_rule="gated_delta", **arguments)


def test_arrays_variables_and_nested_lists_are_taken_as_tensors():
    inputs = problem(dtype="float32")
    mask = np.arange(14).reshape(2, 7) % 3 > 0
    expected = call(inputs, mask=mask, segment_ids=np.zeros((2, 7), np.int64))
    for convert in (np.asarray, tf.Variable, lambda x: x.numpy().tolist()):
        converted = {name: convert(x) for name, x in inputs.items()}
        got = call(converted, mask=mask.tolist(), segment_ids=[[0] * 7] * 2)
        for x, y in zip(got, expected, strict=True):
            np.testing.assert_array_equal(x, y)


def test_both_parts_of_a_kernel_state_may_be_arrays():
    tokens = {n: x for n, x in problem("linear").items() if n != "initial_state"}
    _, state = kernelized_attention(**tokens, causal=True)
    arrays = tuple(x.numpy() for x in state)
    expected, _ = kernelized_attention(**tokens, causal=True, initial_state=state)
    output, _ = kernelized_attention(**tokens, causal=True, initial_state=arrays)
    np.testing.assert_array_equal(output, expected)


def test_a_list_of_integers_is_an_integer_tensor():
    inputs = problem() | {"query": [[[[1, 2, 3, 4]] * 6] * 7] * 2}
    with pytest.raises(TypeError, match=r"^query must have a floating-point dtype, got int32$"):
        call(inputs)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (tf.ragged.constant([[1.0], [2.0, 3.0]]), "RaggedTensor"),
        (tf.sparse.from_dense([[1.0]]), "SparseTensor"),
        ([[1.0], [2.0, 3.0]], "a list of 2"),
        ([tf.constant(1.0), tf.constant(2.0)], "a list of 2"),
        ("text", "str"),
        (1.0, "float"),
        (np.array([None]), "ndarray"),
        (None, "None"),
    ],
    ids=["ragged", "sparse", "uneven", "tensors", "text", "number", "objects", "none"],
)
def test_what_is_no_tensor_is_refused(given, what):
    with pytest.raises(TypeError, match=f"^value must be a tensor, got {what}$"):
        call(problem() | {"value": given})
    with pytest.raises(TypeError, match=f"^x must be a tensor, got {what}$"):
        elu_plus_one(given)


@pytest.mark.parametrize("name", ["query", "initial_state", "mask"])
def test_an_unknown_rank_is_refused_by_name(name):
    inputs = problem() | {"mask": tf.ones([2, 7], tf.bool)}
    specs = signature(inputs) | {name: tf.TensorSpec(None, inputs[name].dtype)}
    message = f"^{name} must have a known number of axes, got an unknown shape$"
    with pytest.raises(ValueError, match=message):
        tf.function(call, autograph=False).get_concrete_function(specs)


def test_unknown_heads_or_widths_are_refused_by_name():
    specs = signature(problem())
    specs["value"] = tf.TensorSpec([None, None, None, 5], tf.float64)
    message = re.escape("value must have known sizes but for B and T, got [?, ?, ?, 5]")
    with pytest.raises(ValueError, match=f"^{message}$"):
        tf.function(call, autograph=False).get_concrete_function(specs)

    def packed(x):
        return onnx_linear_attention(x, x, x, update_rule="linear", q_num_heads=2, kv_num_heads=2)

    message = re.escape("query must have known sizes but for B and T, got [?, ?, ?]")
    with pytest.raises(ValueError, match=f"^{message}$"):
        tf.function(packed, autograph=False).get_concrete_function(
            tf.TensorSpec([None, None, None], tf.float32)
        )


def test_known_sizes_that_disagree_are_refused_while_tracing_with_the_shared_text():
    specs = signature(problem())
    specs["beta"] = tf.TensorSpec([None, None, 4], tf.float64)
    message = re.escape(
        "beta must have shape [B, T, Hv] or [B, T, 1], got [?, ?, 4]: Hv is 4, but 3 in value"
    )
    with pytest.raises(ValueError, match=f"^{message}"):
        tf.function(call, autograph=False).get_concrete_function(specs)


OPEN = ("key", "value", "log_decay", "beta", "initial_state", "mask", "segment_ids")


@pytest.mark.parametrize(
    ("name", "jit_compile"),
    [(name, None) for name in OPEN] + [("log_decay", True), ("mask", True)],
)
def test_sizes_unknown_while_tracing_are_never_broadcast(name, jit_compile):
    inputs = problem(B=2, T=3)
    inputs["mask"], inputs["segment_ids"] = tf.ones([2, 3], tf.bool), tf.zeros([2, 3], tf.int32)
    function = tf.function(
        call, input_signature=[signature(inputs)], autograph=False, jit_compile=jit_compile
    )
    inputs[name] = inputs[name][:1]
    with pytest.raises(tf.errors.InvalidArgumentError):
        function(inputs)


def test_auto_is_recurrent_for_a_known_length_of_one_only():
    def operations(T, mode):
        def run(inputs):
            return call(inputs, execution_mode=mode)

        specs = {name: tf.TensorSpec(x.shape, x.dtype) for name, x in problem(T=1).items()}
        if T is None:
            specs = signature(problem())
        graph = tf.function(run).get_concrete_function(specs).graph
        return [operation.type for operation in graph.get_operations()]

    assert operations(1, "auto") == operations(1, "recurrent") != operations(1, "parallel")
    assert operations(None, "auto") == operations(None, "parallel")


def test_a_callable_feature_map_may_return_an_array():
    tokens = {n: x for n, x in problem("linear").items() if n != "initial_state"}
    mapped, _ = kernelized_attention(**tokens, feature_map=lambda x: np.exp(x.numpy()))
    expected, _ = kernelized_attention(**tokens, feature_map=tf.exp)
    np.testing.assert_allclose(mapped, expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [tf.uint8, tf.int16, tf.uint32, tf.int64], ids=lambda d: d.name)
def test_segment_ids_of_every_integer_dtype_give_the_same(dtype):
    ids = tf.constant([[0, 0, 1, 1, 1, 2, 0]] * 2)
    expected = call(problem(), segment_ids=ids)
    got = call(problem(), segment_ids=tf.cast(ids, dtype))
    for x, y in zip(got, expected, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", linattn_tf.__all__)
def test_every_operator_is_documented_with_what_is_special_here(name):
    text = getattr(linattn_tf, name).__doc__
    assert "Args:" in text
    assert "On TensorFlow:" in text
