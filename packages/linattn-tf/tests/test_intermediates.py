"""The parallel form stays lean: nothing of the size T x T or T x Dk x Dv, forward and backward."""

from functools import partial

import pytest
import tensorflow as tf
from problem import loss_gradients, problem

from linattn_tf import kernelized_attention, linear_attention

# T * Dk * Dv < T * T, and everything the form may keep (a state for every chunk of 4) is smaller.
T, DK, DV = 97, 8, 9
LIMIT = T * DK * DV
SIZES = dict(B=1, T=T, Hq=1, Hk=1, Hv=1, Dk=DK, Dv=DV)
LOOPS = {"While", "StatelessWhile"}


def nodes(function, inputs):
    """Every node of the graph of `function`, those of its loops and gradients included."""
    graph = tf.function(function).get_concrete_function(inputs).graph
    definition = graph.as_graph_def(add_shapes=True)
    yield from definition.node
    for nested in definition.library.function:
        yield from nested.node_def


def excesses(function, inputs):
    """The tensors, and lists of one tensor per token, that the parallel form must not make."""
    found, seen = [], 0
    for node in nodes(function, inputs):
        for shape in node.attr["_output_shapes"].list.shape:
            known = tf.TensorShape(shape)
            seen += 1
            if known.is_fully_defined() and known.num_elements() >= LIMIT:
                found.append(f"{node.name}: {known}")
        # What a loop keeps for its gradient, one item a step, is pushed on a list.
        if node.op == "TensorListPushBack":
            found.append(f"{node.name}: a list that grows with the steps of a loop")
    assert seen > 50
    return found


def forward_and_backward(**arguments):
    operator = partial(linear_attention, chunk_size=4, **arguments)
    return lambda inputs: loss_gradients(operator, inputs)


@pytest.mark.parametrize("per_key", [False, True], ids=["per-head", "per-key"])
@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_the_parallel_form_makes_no_tensor_that_grows_too_fast(rule, per_key):
    function = forward_and_backward(update_rule=rule, execution_mode="parallel")
    assert excesses(function, problem(rule, per_key=per_key, **SIZES)) == []


def test_segments_and_masks_make_no_tensor_that_grows_too_fast():
    function = forward_and_backward(
        update_rule="gated_delta",
        execution_mode="parallel",
        mask=tf.ones([1, T], tf.bool),
        segment_ids=tf.zeros([1, T], tf.int32),
    )
    assert excesses(function, problem(**SIZES)) == []


@pytest.mark.parametrize("causal", [True, False])
def test_kernelized_attention_makes_no_tensor_that_grows_too_fast(causal):
    def both(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output, _ = kernelized_attention(**inputs, causal=causal, chunk_size=4)
            loss = tf.reduce_sum(output)
        return tape.gradient(loss, inputs)

    inputs = {n: x for n, x in problem("linear", **SIZES).items() if n != "initial_state"}
    assert excesses(both, inputs) == []


def test_the_check_sees_a_quadratic_implementation():
    def quadratic(inputs):
        scores = tf.einsum("bihk,bjhk->bijh", inputs["query"], inputs["key"])
        scores = tf.where(tf.range(T)[:, None, None] >= tf.range(T)[:, None], scores, 0)
        return tf.einsum("bijh,bjhv->bihv", scores, inputs["value"])

    def padded(inputs):
        return tuple(tf.identity(x) + 0 for x in [quadratic(inputs)] * 60)

    assert any(f"{T}, {T}" in found for found in excesses(padded, problem("linear", **SIZES)))


def test_the_check_sees_a_state_kept_for_every_token():
    function = forward_and_backward(update_rule="gated_delta", execution_mode="recurrent")
    assert any("grows with the steps" in found for found in excesses(function, problem(**SIZES)))


def test_the_rule_linear_has_no_loop():
    function = forward_and_backward(update_rule="linear", execution_mode="parallel")
    assert not LOOPS & {node.op for node in nodes(function, problem("linear", **SIZES))}


@pytest.mark.parametrize("rule", ["gated", "delta", "gated_delta"])
def test_the_other_rules_loop_once_forward_and_once_backward(rule):
    function = forward_and_backward(update_rule=rule, execution_mode="parallel")
    loops = [node for node in nodes(function, problem(rule, **SIZES)) if node.op in LOOPS]
    assert len(loops) == 2
