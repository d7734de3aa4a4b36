"""What users of TensorFlow expect of an operator: every way to trace, compile and differentiate."""

import numpy as np
import pytest
import tensorflow as tf
from problem import loss_gradients, problem, signature

import linattn_tf
from linattn_spec import complex_step_vjp
from linattn_spec import linear_attention as definition
from linattn_tf import kernelized_attention, linear_attention

RULES = ("linear", "gated", "delta", "gated_delta")
MODES = ("parallel", "recurrent")
# (B, T): none, one, one less than a chunk of 4, a chunk, one more, several; and no rows.
RUNS = ((2, 7), (1, 0), (3, 1), (2, 3), (1, 4), (2, 5), (3, 11), (0, 7))


def assert_same(got, expected, tolerance=1e-12):
    tf.nest.assert_same_structure(got, expected)
    for x, y in zip(tf.nest.flatten(got), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def one_trace(function, inputs, **options):
    """A tf.function of `function` with B and T left open, and the list that counts its traces."""
    traces = []

    def traced(inputs):
        traces.append(1)
        return function(inputs)

    return tf.function(traced, input_signature=[signature(inputs)], **options), traces


@pytest.mark.parametrize("jit_compile", [None, True], ids=["graph", "xla"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rule", RULES)
def test_one_trace_serves_every_batch_and_length_with_gradients(rule, mode, jit_compile):
    def both(inputs):
        return loss_gradients(
            linear_attention, inputs, update_rule=rule, execution_mode=mode, chunk_size=4
        )

    function, traces = one_trace(both, problem(rule), jit_compile=jit_compile)
    for B, T in RUNS if jit_compile is None else RUNS[1::5]:
        inputs = problem(rule, B=B, T=T, seed=T)
        assert_same(function(inputs), both(inputs))
    assert len(traces) == 1


@pytest.mark.parametrize("jit_compile", [None, True], ids=["graph", "xla"])
def test_one_trace_serves_every_length_of_a_decay_per_key(jit_compile):
    def both(inputs):
        return loss_gradients(linear_attention, inputs, update_rule="gated_delta", chunk_size=4)

    function, traces = one_trace(both, problem(per_key=True), jit_compile=jit_compile)
    for B, T in ((2, 7), (1, 0)):
        inputs = problem(per_key=True, B=B, T=T)
        assert_same(function(inputs), both(inputs))
    assert len(traces) == 1


@pytest.mark.parametrize("jit_compile", [None, True], ids=["graph", "xla"])
@pytest.mark.parametrize("mode", MODES)
def test_masked_and_packed_sequences_compile_with_unknown_sizes(mode, jit_compile):
    rows = tf.TensorSpec([None, None], tf.bool), tf.TensorSpec([None, None], tf.int32)

    def both(inputs, mask, segment_ids):
        return loss_gradients(
            linear_attention,
            inputs,
            update_rule="gated_delta",
            mask=mask,
            segment_ids=segment_ids,
            execution_mode=mode,
            chunk_size=4,
        )

    function = tf.function(
        both, input_signature=[signature(problem()), *rows], jit_compile=jit_compile
    )
    for B, T in ((2, 7), (1, 0)):
        rng = np.random.default_rng(T)
        mask = tf.constant(rng.uniform(size=(B, T)) < 0.7)
        ids = tf.constant(np.sort(rng.integers(0, 3, size=(B, T))), tf.int32)
        inputs = problem(B=B, T=T)
        for name in ("query", "key", "value", "log_decay", "beta"):
            keep = tf.reshape(mask, mask.shape + [1] * (inputs[name].shape.rank - 2))
            inputs[name] = tf.where(keep, inputs[name], np.nan)
        got = function(inputs, mask, ids)
        assert_same(got, both(inputs, mask, ids))
        for name in ("query", "key", "value", "log_decay", "beta"):
            np.testing.assert_array_equal(got[2][name].numpy()[~mask.numpy()], 0)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("jit_compile", [None, True], ids=["graph", "xla"])
def test_kernelized_attention_is_traced_once(causal, jit_compile):
    def run(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output, state = kernelized_attention(**inputs, causal=causal, chunk_size=4)
            loss = tf.reduce_sum(tf.sin(output))
        results = [output, *(state or ())]
        return results, tape.gradient(loss, inputs)

    def tokens(**sizes):
        return {n: x for n, x in problem("linear", **sizes).items() if n != "initial_state"}

    function, traces = one_trace(run, tokens(), jit_compile=jit_compile)
    for B, T in ((2, 7), (1, 0)):
        assert_same(function(tokens(B=B, T=T)), run(tokens(B=B, T=T)))
    assert len(traces) == 1


@pytest.mark.parametrize("jit_compile", [None, True], ids=["graph", "xla"])
def test_the_step_and_the_onnx_form_compile_with_an_unknown_batch(jit_compile):
    def run(query, key, value, state, log_decay, beta):
        output, state = linattn_tf.linear_attention_step(
            query, key, value, state, update_rule="gated_delta", log_decay=log_decay, beta=beta
        )
        packed = [tf.reshape(x, [-1, 1, x.shape[1] * x.shape[2]]) for x in (query, key, value)]
        return output, linattn_tf.onnx_linear_attention(
            *packed,
            tf.cast(state, tf.float32),
            log_decay[:, None],
            beta[:, None],
            q_num_heads=6,
            kv_num_heads=3,
        )

    inputs = problem(B=2, T=1, Hk=3, dtype="float32")
    names = ("query", "key", "value", "initial_state", "log_decay", "beta")
    step = [inputs[n] if n == "initial_state" else inputs[n][:, 0] for n in names]
    specs = [tf.TensorSpec([None] + x.shape[1:], x.dtype) for x in step]
    function = tf.function(run, input_signature=specs, jit_compile=jit_compile)
    assert_same(function(*step), run(*step), 1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rule", RULES)
def test_second_derivatives_match_complex_steps_of_the_definition(rule, mode):
    inputs = problem(rule, B=1, T=5, Hq=1, Hv=1, Dk=2, Dv=3)
    names = list(inputs)

    def gradients(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output, state = linear_attention(
                **inputs, update_rule=rule, execution_mode=mode, chunk_size=2
            )
            loss = tf.reduce_sum(output * output) + tf.reduce_sum(state * state)
        return tape.gradient(loss, inputs)

    with tf.GradientTape() as tape:
        tape.watch(inputs)
        first = gradients(inputs)
        weighted = tf.add_n([tf.reduce_sum(tf.sin(first[n])) for n in names])
    second = tape.gradient(weighted, inputs)

    # d/dx sum sin(g(x)) is the derivative of g along cos(g): here by central differences of the
    # exact first derivatives.
    direction = {n: np.cos(first[n].numpy()) for n in names}
    arrays = {n: x.numpy() for n, x in inputs.items()}

    def exact(point):
        output, state = definition(**point, update_rule=rule)
        return complex_step_vjp(
            lambda **i: definition(**i, update_rule=rule), point, [2 * output, 2 * state]
        )

    size = 1e-5
    ahead = exact({n: arrays[n] + size * direction[n] for n in names})
    behind = exact({n: arrays[n] - size * direction[n] for n in names})
    for n in names:
        expected = (ahead[n] - behind[n]) / (2 * size)
        error = np.abs(second[n].numpy() - expected).max() / np.abs(expected).max()
        assert error < 1e-8, n


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "graph"])
def test_tape_jacobian_equals_rows_of_gradients(mode, compiled):
    inputs = problem(B=1, T=5, Hq=1, Hv=1, Dk=2, Dv=2)

    def jacobian(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output, _ = linear_attention(
                **inputs, update_rule="gated_delta", execution_mode=mode, chunk_size=2
            )
            flat = tf.reshape(output, [-1])
        return tape.jacobian(flat, inputs)

    got = (tf.function(jacobian) if compiled else jacobian)(inputs)
    for row in (0, 7):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output, _ = linear_attention(**inputs, update_rule="gated_delta")
            element = tf.reshape(output, [-1])[row]
        expected = tape.gradient(element, inputs, unconnected_gradients="zero")
        assert_same({n: x[row] for n, x in got.items()}, expected)


@pytest.mark.parametrize("mode", MODES)
def test_a_saved_model_runs_and_differentiates_at_any_size(tmp_path, mode):
    class Module(tf.Module):
        @tf.function(input_signature=[signature(problem())])
        def __call__(self, inputs):
            return linear_attention(
                **inputs, update_rule="gated_delta", execution_mode=mode, chunk_size=4
            )

    tf.saved_model.save(Module(), str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    for B, T in ((2, 7), (1, 0), (3, 1), (2, 11)):
        inputs = problem(B=B, T=T, seed=T)
        expected = loss_gradients(linear_attention, inputs, update_rule="gated_delta")
        assert_same(loss_gradients(lambda loaded=loaded, **x: loaded(x), inputs), expected)


def test_gradients_reach_variables():
    inputs = {name: tf.Variable(x) for name, x in problem().items()}
    with tf.GradientTape() as tape:
        output, state = linear_attention(**inputs, update_rule="gated_delta")
        loss = tf.reduce_sum(output) + tf.reduce_sum(state)
    gradients = tape.gradient(loss, inputs)
    with tf.GradientTape() as tape:
        tensors = problem()
        tape.watch(tensors)
        output, state = linear_attention(**tensors, update_rule="gated_delta")
        loss = tf.reduce_sum(output) + tf.reduce_sum(state)
    assert_same(gradients, tape.gradient(loss, tensors))


def test_gradients_reach_a_scale_given_as_a_tensor():
    scale, inputs = tf.constant(0.5, tf.float64), problem("linear")
    with tf.GradientTape() as tape:
        tape.watch(scale)
        output, _ = linear_attention(**inputs, scale=scale)
        loss = tf.reduce_sum(output)
    np.testing.assert_allclose(tape.gradient(loss, scale), loss / scale, rtol=1e-12)


def test_recompute_grad_and_a_map_over_a_new_axis_change_nothing():
    inputs = problem()

    def run(*tensors):
        return linear_attention(
            **dict(zip(inputs, tensors, strict=True)), update_rule="gated_delta"
        )

    expected = run(*inputs.values())
    assert_same(tf.recompute_grad(run)(*inputs.values()), expected)
    mapped = tf.vectorized_map(lambda x: run(*x), [tf.stack([x, x]) for x in inputs.values()])
    assert_same([x[1] for x in mapped], list(expected))
