"""Sequences of several segments: the pass over them, and its gradient, are loops of their own."""

from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from problem import loss_gradients, problem, signature
from test_intermediates import nodes
from test_transforms import assert_same

from linattn_tf import linear_attention
from linattn_tf._inverse import invert_unit_lower, solve_unit_lower
from linattn_tf._scan import running_sums

RULES = ("gated", "delta", "gated_delta")
# One head: segments of 8 chunks, here of 16 tokens.
SMALL = dict(B=1, T=37, Hq=2, Hv=1, Dk=2, Dv=2)


def form(rule, mode="parallel"):
    return partial(linear_attention, update_rule=rule, execution_mode=mode, chunk_size=2)


@pytest.mark.parametrize("jit_compile", [None, True], ids=["graph", "xla"])
@pytest.mark.parametrize(("rule", "per_key"), [*((r, False) for r in RULES), ("gated_delta", True)])
def test_one_trace_passes_any_number_of_segments(rule, per_key, jit_compile):
    function = tf.function(
        lambda inputs: loss_gradients(form(rule), inputs),
        input_signature=[signature(problem(rule, per_key=per_key))],
        jit_compile=jit_compile,
    )
    # XLA compiles for every size; that it does for none is a test of test_transforms.py.
    for B, T in ((2, 75), (1, 16)) if jit_compile else ((2, 75), (1, 0), (1, 16)):
        inputs = problem(rule, B=B, T=T, per_key=per_key)
        assert_same(function(inputs), loss_gradients(form(rule, "recurrent"), inputs), 1e-11)
    assert function.experimental_get_tracing_count() == 1


@pytest.mark.parametrize(
    ("rule", "compiled"), [*((rule, False) for rule in RULES), ("gated_delta", True)]
)
def test_second_derivatives_cross_segments(rule, compiled):
    def second(inputs, mode):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            first = loss_gradients(form(rule, mode), inputs)[2]
            weighted = tf.add_n([tf.reduce_sum(tf.sin(x)) for x in first.values()])
        return tape.gradient(weighted, inputs)

    inputs = problem(rule, **SMALL)
    run = tf.function(second) if compiled else second
    assert_same(run(inputs, "parallel"), second(inputs, "recurrent"), 1e-9)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "graph"])
def test_jacobians_cross_segments(compiled):
    inputs = problem(**SMALL)

    def jacobian(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            last = tf.reshape(form("gated_delta")(**inputs)[0][:, -1], [-1])
        return tape.jacobian(last, inputs)

    got = (tf.function(jacobian) if compiled else jacobian)(inputs)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        element = tf.reshape(form("gated_delta", "recurrent")(**inputs)[0][:, -1], [-1])[1]
    assert_same({n: x[1] for n, x in got.items()}, tape.gradient(element, inputs), 1e-11)


def test_forward_derivatives_cross_segments():
    inputs = problem(**SMALL)
    tangents = {name: tf.sin(x) for name, x in inputs.items()}

    def product(mode):
        with tf.autodiff.ForwardAccumulator(
            list(inputs.values()), list(tangents.values())
        ) as accumulator:
            output, state = form("gated_delta", mode)(**inputs)
        return accumulator.jvp(output), accumulator.jvp(state)

    assert_same(product("parallel"), product("recurrent"), 1e-11)


def test_a_map_over_a_new_axis_crosses_segments():
    inputs = problem(**SMALL)
    expected = form("gated_delta")(**inputs)
    both = {name: tf.stack([x, -x]) for name, x in inputs.items() if name != "log_decay"}
    both["log_decay"] = tf.stack([inputs["log_decay"]] * 2)
    mapped = tf.vectorized_map(lambda x: form("gated_delta")(**x), both)
    assert_same([x[0] for x in mapped], list(expected))


def test_the_number_of_operations_does_not_depend_on_the_number_of_tokens():
    counts = [
        len(list(nodes(lambda x: loss_gradients(form("gated_delta"), x), problem(T=T))))
        for T in (100, 200)
    ]
    assert abs(counts[0] - counts[1]) < 10  # a constant more or less


@pytest.mark.parametrize("count", [1, 8, 9, 64, 75, None])
def test_running_sums_are_cumulative_sums_with_their_gradient(count):
    x = tf.constant(np.random.default_rng(0).normal(size=(count or 21, 3)))

    def both(x, sums):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = sums(x)
            loss = tf.reduce_sum(tf.sin(y))
        return y, tape.gradient(loss, x)

    spec = tf.TensorSpec([count, 3], x.dtype)
    run = tf.function(lambda x: both(x, running_sums), input_signature=[spec], autograph=False)
    assert_same(run(x), both(x, tf.cumsum))


@pytest.mark.parametrize("adjoint", [False, True])
def test_the_gradient_of_the_system_is_that_of_a_general_one(adjoint):
    rng = np.random.default_rng(0)
    strict, right = tf.constant(rng.normal(size=(3, 4, 4))), tf.constant(rng.normal(size=(3, 4, 5)))

    def solve(strict, right):
        return solve_unit_lower(strict, invert_unit_lower(strict), right, adjoint)

    def general(strict, right):
        matrix = tf.linalg.band_part(strict, -1, 0)
        matrix = tf.linalg.set_diag(matrix, tf.ones([3, 4], tf.float64))
        return tf.linalg.solve(matrix, right, adjoint=adjoint)

    def derivatives(function):
        with tf.GradientTape() as outer:
            outer.watch([strict, right])
            with tf.GradientTape() as tape:
                tape.watch([strict, right])
                loss = tf.reduce_sum(tf.sin(function(strict, right)))
            first = tape.gradient(loss, [strict, right])
            weighted = tf.add_n([tf.reduce_sum(tf.cos(x)) for x in first])
        return first, outer.gradient(weighted, [strict, right])

    assert_same(derivatives(solve), derivatives(general), 1e-10)
