"""What the golden gradients do not try: every chunk remainder, absent cotangents, own maps."""

from itertools import product

import numpy as np
import pytest
from problem import MODES, RULES, cotangents, error, problem

import linattn_core
from linattn_core import (
    elu_plus_one,
    elu_plus_one_vjp,
    kernelized_attention,
    kernelized_attention_vjp,
    l2_normalize_vjp,
    linear_attention,
    linear_attention_step_vjp,
    linear_attention_vjp,
    onnx_linear_attention_vjp,
    relu_vjp,
)
from linattn_spec import complex_step_vjp
from linattn_spec import kernelized_attention_vjp as kernelized_definition
from linattn_spec import linear_attention as definition
from linattn_spec import linear_attention_vjp as gradient_definition

CHUNK = 4
LENGTHS = (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 3)
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
STRENGTHS = (0.0, 0.01, 1.0, 20.0, 1e4, np.inf)


def harsh(rule, *, seed, **arguments):
    """A problem with every strength of decay, beta up to 2, a mask, segments and cotangents."""
    inputs, rng = problem(rule, seed=seed, **arguments), np.random.default_rng(seed)
    tokens = inputs["query"].shape[:2]
    if "log_decay" in inputs:
        shape = inputs["log_decay"].shape
        inputs["log_decay"][:] = -rng.choice(STRENGTHS, size=shape)
    if "beta" in inputs:
        inputs["beta"] *= 1.999
    masked = {
        "mask": rng.uniform(size=tokens) > 0.3,
        "segment_ids": np.sort(rng.integers(0, 3, size=tokens), axis=1),
    }
    return inputs, masked, cotangents(inputs, seed)


def spoilt(arrays, mask):
    """The same arrays with NaN at masked tokens."""
    spoilt = {}
    for name, x in arrays.items():
        spoilt[name] = x.copy()
        if x.shape[:2] == mask.shape and "state" not in name:
            spoilt[name][~mask] = np.nan
    return spoilt


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("per_key", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_every_remainder_and_every_decay_gives_the_gradients_of_the_definition(
    rule, per_key, dtype, mode
):
    heads = (dict(Hq=6, Hk=1, Hv=3), dict(Hq=2, Hk=3, Hv=6))
    for seed, (T, sizes) in enumerate(product(LENGTHS, heads)):
        inputs, masked, given = harsh(rule, seed=seed, dtype=dtype, per_key=per_key, T=T, **sizes)
        expected = gradient_definition(**inputs, **masked, **given, update_rule=rule)
        spoilt_inputs, spoilt_given = (spoilt(x, masked["mask"]) for x in (inputs, given))
        got = linear_attention_vjp(
            **spoilt_inputs,
            **masked,
            **spoilt_given,
            update_rule=rule,
            execution_mode=mode,
            chunk_size=CHUNK,
        )
        assert set(got) == set(expected)
        for name, x in got.items():
            assert x.dtype == dtype
            assert error(x, expected[name]) < TOLERANCE[dtype], (name, T, sizes)
            if name != "initial_state":
                np.testing.assert_array_equal(x[~masked["mask"]], 0)
        if "log_decay" in got:
            reset = np.isneginf(inputs["log_decay"])
            np.testing.assert_array_equal(got["log_decay"][reset], 0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rule", RULES)
def test_the_gradients_are_the_slopes_of_the_definition(rule, mode):
    inputs = problem(rule, B=1, T=5, Hq=2, Hk=1, Hv=1, Dk=2, Dv=3)
    given = cotangents(inputs)

    def forward(**inputs):
        return definition(**inputs, update_rule=rule)

    expected = complex_step_vjp(forward, inputs, tuple(given.values()))
    got = linear_attention_vjp(
        **inputs, **given, update_rule=rule, execution_mode=mode, chunk_size=2
    )
    for name, x in expected.items():
        assert error(got[name], x) < 1e-13, name


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("per_key", [False, True])
def test_the_gradient_of_a_strong_decay_is_precise_to_its_own_size(per_key, mode):
    inputs = problem("gated_delta", dtype="float32", per_key=per_key, T=11)
    inputs["log_decay"][:, ::3] = -20
    given = cotangents(inputs)
    arguments = dict(update_rule="gated_delta", **given)
    got = linear_attention_vjp(**inputs, **arguments, execution_mode=mode, chunk_size=CHUNK)
    strong, expected = (
        x["log_decay"][:, ::3].astype(np.float64)
        for x in (got, gradient_definition(**inputs, **arguments))
    )
    assert np.abs(expected).max() < 1e-7
    assert error(strong, expected) < 1e-5


@pytest.mark.parametrize("mode", MODES)
def test_a_beta_of_width_one_gets_the_sum_over_heads(mode):
    inputs = problem("delta")
    inputs["beta"] = inputs["beta"][:, :, :1]
    given = cotangents(inputs)
    arguments = dict(update_rule="delta", execution_mode=mode, **given)
    got = linear_attention_vjp(**inputs, **arguments)["beta"]
    repeated = inputs | {"beta": np.repeat(inputs["beta"], 3, axis=2)}
    per_head = linear_attention_vjp(**repeated, **arguments)["beta"]
    assert error(got, per_head.sum(axis=2, keepdims=True)) < 1e-14


@pytest.mark.parametrize("mode", MODES)
def test_an_absent_cotangent_is_zeros(mode):
    inputs = problem()
    arguments = dict(inputs, update_rule="gated_delta", execution_mode=mode)
    given = cotangents(inputs)
    for name, other in (list(given), list(given)[::-1]):
        absent = linear_attention_vjp(**arguments, **{name: given[name]})
        zeros = given | {other: np.zeros_like(given[other])}
        for argument, x in linear_attention_vjp(**arguments, **zeros).items():
            np.testing.assert_array_equal(absent[argument], x)
    for x in linear_attention_vjp(**arguments).values():
        np.testing.assert_array_equal(x, 0)


def test_an_initial_state_that_was_not_given_has_a_gradient_in_the_dtype_computed_in():
    for dtype, wide in (("float16", "float32"), ("float64", "float64")):
        inputs = problem("linear", dtype=dtype, state=False)
        given = cotangents(inputs)
        got = linear_attention_vjp(**inputs, **given)["initial_state"]
        zeros = np.zeros(got.shape, dtype)
        expected = linear_attention_vjp(**inputs, **given, initial_state=zeros)["initial_state"]
        assert got.dtype == wide
        np.testing.assert_array_equal(got.astype(dtype), expected)


@pytest.mark.parametrize("rule", RULES)
def test_one_step_is_a_sequence_of_one_token(rule):
    inputs = problem(rule, T=1)
    given = cotangents(inputs)
    expected = linear_attention_vjp(**inputs, **given, update_rule=rule)
    state = inputs.pop("initial_state")
    token = {name: x[:, 0] for name, x in inputs.items()}
    given["output_cotangent"] = given["output_cotangent"][:, 0]
    got = linear_attention_step_vjp(**token, **given, state=state, update_rule=rule)
    np.testing.assert_array_equal(got.pop("state"), expected.pop("initial_state"))
    assert set(got) == set(expected)
    for name, x in got.items():
        np.testing.assert_array_equal(x, expected[name][:, 0])


def test_a_step_without_a_state_or_cotangents_has_zero_gradients_in_every_shape():
    inputs = problem("delta", T=1, state=False)
    token = {name: x[:, 0] for name, x in inputs.items()}
    got = linear_attention_step_vjp(**token, state=None, update_rule="delta")
    assert {name: x.shape for name, x in got.items()} == {
        "state": (2, 3, 4, 5),
        **{name: x.shape for name, x in token.items()},
    }
    assert not any(x.any() for x in got.values())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("use_normalizer", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_kernel_attention_gives_the_gradients_of_the_definition(
    causal, use_normalizer, masked, mode
):
    for seed, T in enumerate(LENGTHS):
        inputs, others, given = harsh("linear", seed=seed, T=T, Hq=2, Hk=3, Hv=6)
        state, d_state = inputs.pop("initial_state"), given.pop("final_state_cotangent")
        arguments = dict(causal=causal, use_normalizer=use_normalizer, epsilon=0.1)
        if causal:
            ones = (np.ones(state.shape[:3]), d_state[..., 0])
            arguments["initial_state"] = (state, ones[0]) if use_normalizer else (state,)
            given["final_state_cotangent"] = (d_state, ones[1]) if use_normalizer else (d_state,)
        if masked:
            arguments |= others
        expected = kernelized_definition(**inputs, **given, **arguments)
        if masked:
            inputs = spoilt(inputs, others["mask"])
        got = kernelized_attention_vjp(
            **inputs, **given, **arguments, execution_mode=mode, chunk_size=CHUNK
        )
        assert set(got) == set(expected)
        for name, x in expected.items():
            pairs = zip(got[name], x, strict=True) if isinstance(x, tuple) else [(got[name], x)]
            for mine, other in pairs:
                assert error(mine, other) < 1e-12, (name, T)


@pytest.mark.parametrize("use_normalizer", [False, True])
def test_a_kernel_state_that_was_not_given_has_a_gradient_like_the_final_state(use_normalizer):
    inputs = problem("linear", dtype="float16", state=False)
    arguments = dict(causal=True, use_normalizer=use_normalizer)
    _, final_state = kernelized_attention(**inputs, **arguments)
    got = kernelized_attention_vjp(**inputs, **arguments, final_state_cotangent=final_state)
    assert [x.dtype for x in got["initial_state"]] == ["float32"] * len(final_state)
    for x, cotangent in zip(got["initial_state"], final_state, strict=True):
        np.testing.assert_array_equal(x, cotangent)


@pytest.mark.parametrize("causal", [False, True])
def test_a_callable_map_with_its_own_derivative_is_as_good_as_the_named_one(causal):
    inputs = problem("linear", state=False)
    given = {"output_cotangent": cotangents(inputs)["output_cotangent"]}
    expected = kernelized_attention_vjp(**inputs, **given, causal=causal)
    got = kernelized_attention_vjp(
        **inputs,
        **given,
        causal=causal,
        feature_map=elu_plus_one,
        feature_map_vjp=lambda x, c: elu_plus_one_vjp(x, output_cotangent=c)["x"],
    )
    for name in inputs:
        np.testing.assert_array_equal(got[name], expected[name])


def test_a_callable_map_may_change_the_width():
    inputs = problem("linear", state=False)
    output_cotangent = cotangents(inputs)["output_cotangent"]
    got = kernelized_attention_vjp(
        **inputs,
        output_cotangent=output_cotangent,
        use_normalizer=False,
        feature_map=lambda x: np.concatenate([x, 2 * x], axis=-1),
        feature_map_vjp=lambda x, c: c[..., :4] + 2 * c[..., 4:],
    )
    expected = kernelized_attention_vjp(
        **inputs,
        output_cotangent=5 * output_cotangent,
        use_normalizer=False,
        feature_map="identity",
    )
    for name in inputs:
        assert error(got[name], expected[name]) < 1e-14


def test_a_packed_gradient_is_the_gradient_packed():
    inputs = problem("gated_delta", dtype="float32", Hq=6, Hk=3, Hv=3, per_key=True)
    given = cotangents(inputs)
    expected = linear_attention_vjp(**inputs, **given, update_rule="gated_delta", scale=0.5)
    inputs["past_state"] = inputs.pop("initial_state")
    inputs["decay"] = inputs.pop("log_decay")
    expected["past_state"] = expected.pop("initial_state")
    expected["decay"] = expected.pop("log_decay")

    def pack(x):
        return x.reshape(*x.shape[:2], -1)

    packed = {n: x if n in ("past_state", "beta") else pack(x) for n, x in inputs.items()}
    got = onnx_linear_attention_vjp(
        **packed,
        output_cotangent=pack(given["output_cotangent"]),
        present_state_cotangent=given["final_state_cotangent"],
        q_num_heads=6,
        kv_num_heads=3,
        scale=0.5,
    )
    assert set(got) == set(packed)
    for name, x in got.items():
        assert x.shape == packed[name].shape
        np.testing.assert_array_equal(x, expected[name].reshape(x.shape))


def test_a_packed_gradient_needs_no_state_and_no_cotangents():
    tokens = np.ones((2, 3, 4), np.float16)
    got = onnx_linear_attention_vjp(
        tokens, tokens, tokens, update_rule="linear", q_num_heads=2, kv_num_heads=2
    )
    assert {name: (x.shape, x.dtype.name) for name, x in got.items()} == {
        **dict.fromkeys(("query", "key", "value"), ((2, 3, 4), "float16")),
        "past_state": ((2, 2, 2, 2), "float32"),
    }
    assert not any(x.any() for x in got.values())


def test_the_derivatives_of_the_maps_are_theirs_on_both_sides_and_at_zero():
    x, ones = np.array([-1000.0, -1.0, 0.0, 2.0, 1000.0]), np.ones(5)
    slopes = elu_plus_one_vjp(x, output_cotangent=ones)["x"]
    np.testing.assert_array_equal(slopes, [0, np.exp(-1), 1, 1, 1])
    slopes = relu_vjp(x, output_cotangent=ones)["x"]
    np.testing.assert_array_equal(slopes, [0, 0, 0, 1, 1])
    slopes = l2_normalize_vjp(np.zeros(5), output_cotangent=ones)["x"]
    np.testing.assert_allclose(slopes, 1e3, rtol=1e-14)


@pytest.mark.parametrize("vjp", [elu_plus_one_vjp, relu_vjp, l2_normalize_vjp])
def test_the_gradient_of_a_map_keeps_the_dtype_and_is_zero_without_a_cotangent(vjp):
    x = np.array([[-1.0, 0.0, 2.0]], np.float16)
    np.testing.assert_array_equal(vjp(x)["x"], np.zeros((1, 3)))
    got = vjp(x, output_cotangent=np.array([[3.0, 1.0, 0.1]]))["x"]
    wide = vjp(x.astype(np.float32), output_cotangent=np.array([[3.0, 1.0, 0.1]]))["x"]
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, wide.astype(np.float16))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rule", RULES)
def test_no_rows_have_empty_gradients(rule, mode):
    inputs = problem(rule, B=0)
    given = cotangents(inputs)
    got = linear_attention_vjp(**inputs, **given, update_rule=rule, execution_mode=mode)
    assert {n: x.shape for n, x in got.items()} == {n: x.shape for n, x in inputs.items()}


def test_every_operator_has_a_gradient_that_takes_all_its_arguments():
    for name in (name for name in linattn_core.__all__ if not name.endswith("_vjp")):
        operator, vjp = (getattr(linattn_core, n).__annotations__ for n in (name, f"{name}_vjp"))
        assert operator.keys() <= vjp.keys()
        assert "Returns:" in getattr(linattn_core, f"{name}_vjp").__doc__


def test_gradients_lead_downhill():
    inputs = problem("gated_delta")
    arguments = dict(update_rule="gated_delta", chunk_size=CHUNK)
    output, state = linear_attention(**inputs, **arguments)
    gradients = linear_attention_vjp(
        **inputs, **arguments, output_cotangent=output, final_state_cotangent=state
    )

    def loss(inputs):
        output, state = linear_attention(**inputs, **arguments)
        return (np.sum(output**2) + np.sum(state**2)) / 2

    step = 1e-7
    below = loss({name: x - step * gradients[name] for name, x in inputs.items()})
    fall = step * sum(np.sum(gradients[name] ** 2) for name in inputs)
    assert abs(loss(inputs) - below - fall) < 1e-4 * fall
