"""Every transform of JAX goes through the operators, and none changes the numbers."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from problem import CHUNK, MODES, RULES, B, T, assert_close, draw, expected

import linattn_jax

both_modes = pytest.mark.parametrize("mode", MODES)
every_rule = pytest.mark.parametrize("rule", RULES)


def attend(inputs, rule="gated_delta", mode="parallel", **arguments):
    return linattn_jax.linear_attention(
        **inputs, update_rule=rule, execution_mode=mode, chunk_size=CHUNK, **arguments
    )


def loss(inputs, rule="gated_delta", mode="parallel"):
    output, state = attend(inputs, rule, mode)
    return jnp.sum(jnp.sin(output)) + jnp.sum(jnp.cos(state))


def small(rule="gated_delta", **sizes):
    return draw(rule, batch=1, tokens=CHUNK + 1, **sizes)


def perturbed(inputs, direction, step):
    return {name: x + step * direction[name] for name, x in inputs.items()}


@both_modes
@every_rule
def test_jit_equals_eager(rule, mode):
    inputs = draw(rule)
    eager = attend(inputs, rule, mode)
    assert_close(eager, expected(inputs, rule))
    assert_close(jax.jit(partial(attend, rule=rule, mode=mode))(inputs), eager)


@both_modes
def test_vmap_over_a_new_axis_equals_a_loop(mode):
    draws = [draw(seed=seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *x: np.stack(x), *draws)
    wanted = [expected(inputs) for inputs in draws]
    got = jax.vmap(partial(attend, mode=mode))(stacked)
    assert_close(got, jax.tree.map(lambda *x: np.stack(x), *wanted))


@both_modes
def test_vmap_maps_some_arguments_only(mode):
    inputs = draw()
    states = np.random.default_rng(1).normal(size=(3, *inputs["initial_state"].shape))
    axes = {name: 0 if name == "initial_state" else None for name in inputs}
    got = jax.vmap(partial(attend, mode=mode), in_axes=(axes,))(inputs | {"initial_state": states})
    wanted = [expected(inputs | {"initial_state": state}) for state in states]
    assert_close(got, jax.tree.map(lambda *x: np.stack(x), *wanted))


def test_vmap_of_a_gradient_equals_a_loop_of_gradients():
    draws = [small(seed=seed) for seed in range(2)]
    stacked = jax.tree.map(lambda *x: np.stack(x), *draws)
    wanted = [jax.grad(loss)(inputs) for inputs in draws]
    assert_close(jax.vmap(jax.grad(loss))(stacked), jax.tree.map(lambda *x: np.stack(x), *wanted))


@both_modes
@every_rule
def test_forward_and_reverse_mode_and_a_difference_agree(rule, mode):
    inputs, direction = small(rule), small(rule, seed=1)
    function = jax.jit(partial(loss, rule=rule, mode=mode))
    _, slope = jax.jvp(function, (inputs,), (direction,))
    gradient = jax.grad(function)(inputs)
    reverse = sum(np.vdot(gradient[name], direction[name]) for name in inputs)
    assert_close(slope, reverse)
    step = 1e-6  # the difference is off by the step squared and by rounding over the step
    ahead, behind = (function(perturbed(inputs, direction, s)) for s in (step, -step))
    assert_close(slope, (ahead - behind) / (2 * step), 1e-7)


@every_rule
def test_hessians_of_both_modes_agree_and_are_symmetric(rule):
    inputs = draw(rule, batch=1, tokens=3)
    names = [n for n in ("key", "log_decay", "beta") if n in inputs]
    shapes = [inputs[n].shape for n in names]
    ends = np.cumsum([0, *(inputs[n].size for n in names)])

    def of_flat(x, mode):
        parts = [
            x[a:b].reshape(shape) for a, b, shape in zip(ends[:-1], ends[1:], shapes, strict=True)
        ]
        output, state = linattn_jax.linear_attention(
            **(inputs | dict(zip(names, parts, strict=True))),
            update_rule=rule,
            execution_mode=mode,
            chunk_size=2,
        )
        return jnp.sum(jnp.sin(output)) + jnp.sum(jnp.cos(state))

    x = jnp.concatenate([inputs[n].ravel() for n in names])
    parallel, recurrent = (jax.jit(jax.hessian(partial(of_flat, mode=m)))(x) for m in MODES)
    assert_close(parallel, recurrent)
    assert_close(parallel, parallel.T)


def test_checkpoint_changes_no_gradient():
    inputs = small()
    assert_close(jax.grad(jax.checkpoint(loss))(inputs), jax.grad(loss)(inputs))


@pytest.mark.parametrize(("rule", "mode"), [(r, "parallel") for r in RULES] + [("delta", "auto")])
def test_an_export_with_symbolic_sizes_runs_at_others_with_its_gradient(rule, mode):
    check_export(rule, mode)


@every_rule
def test_an_export_of_the_token_loop_runs_at_other_sizes_with_its_gradient(rule):
    check_export(rule, "recurrent")


def check_export(rule, mode):
    batch, tokens = export.symbolic_shape("batch, tokens")

    def symbolic(name, x):
        lead = (batch,) if name == "initial_state" else (batch, tokens)
        return jax.ShapeDtypeStruct((*lead, *x.shape[len(lead) :]), x.dtype)

    function = partial(attend, rule=rule, mode=mode)
    shapes = {name: symbolic(name, x) for name, x in draw(rule).items()}
    exported = export.deserialize(export.export(jax.jit(function))(shapes).serialize(vjp_order=1))
    for rows, count in ((B, T), (1, 1), (2, CHUNK), (3, 2 * CHUNK + 1)):
        inputs = draw(rule, batch=rows, tokens=count, seed=count)
        output, pull_back = jax.vjp(exported.call, inputs)
        assert_close(output, expected(inputs, rule))
    _, wanted = jax.vjp(function, inputs)
    cotangents = jax.tree.map(jnp.cos, output)
    assert_close(pull_back(cotangents), wanted(cotangents))


@both_modes
def test_a_traced_scale_equals_a_constant_one(mode):
    inputs = draw()
    got = jax.jit(lambda scale: attend(inputs, mode=mode, scale=scale))(0.3)
    assert_close(got, expected(inputs, scale=0.3))
    slope = jax.grad(lambda scale: jnp.sum(attend(inputs, mode=mode, scale=scale)[0]))(0.3)
    assert_close(slope, np.sum(expected(inputs, scale=1.0)[0]))


@both_modes
def test_no_tracer_leaks(mode):
    with jax.checking_leaks():
        gradient = jax.jit(jax.grad(partial(loss, mode=mode)))(small())
    assert all(np.isfinite(x).all() for x in gradient.values())


@both_modes
def test_a_masked_token_with_nan_gets_gradient_zero_and_makes_no_nan(mode):
    inputs, mask = draw(), np.random.default_rng(2).uniform(size=(B, T)) < 0.6
    reset = np.random.default_rng(3).uniform(size=inputs["log_decay"].shape) < 0.3
    inputs["log_decay"] = np.where(reset, -np.inf, inputs["log_decay"])
    of_tokens = [name for name in inputs if name != "initial_state"]
    holes = inputs | {n: inputs[n].copy() for n in of_tokens}
    for name in of_tokens:
        holes[name][~mask] = np.nan

    def masked_loss(inputs):
        output, state = attend(inputs, mode=mode, mask=mask)
        return jnp.sum(output * output) + jnp.sum(state * state)

    with jax.debug_nans(True):
        gradient = jax.jit(jax.grad(masked_loss))(holes)
    wanted = jax.grad(masked_loss)(inputs)
    assert_close(gradient, wanted)
    for name in of_tokens:
        assert not np.any(np.asarray(gradient[name])[~mask])


@pytest.mark.parametrize("causal", [True, False])
def test_kernelized_attention_maps_and_differentiates_like_its_token_loop(causal):
    inputs = draw("linear", batch=2, state=False)

    def output(inputs, mode):
        return linattn_jax.kernelized_attention(
            **inputs, causal=causal, execution_mode=mode, chunk_size=CHUNK
        )[0]

    stacked = jax.tree.map(lambda x: np.stack([x, x[::-1]]), inputs)
    parallel, recurrent = (
        jax.jit(jax.vmap(jax.grad(lambda i, m=m: jnp.sum(jnp.sin(output(i, m))))))(stacked)
        for m in MODES
    )
    assert_close(parallel, recurrent, 1e-11)


def test_a_callable_feature_map_may_change_the_width():
    inputs = draw("linear", state=False)

    def widened(x):
        return jnp.concatenate([jnp.exp(x), jnp.exp(-x)], axis=-1)

    output, (state, keys) = jax.jit(
        lambda i: linattn_jax.kernelized_attention(**i, feature_map=widened, causal=True)
    )(inputs)
    assert state.shape[-2] == keys.shape[-1] == 2 * inputs["key"].shape[-1]
    assert np.isfinite(output).all()
