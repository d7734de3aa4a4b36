"""Mode "auto" with a small state: token by token on a CPU, in chunks once it is differentiated."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from problem import CHUNK, HEADS, assert_close, draw, expected

import linattn_jax

LOOPED = ("gated", "delta", "gated_delta")


def attend(inputs, rule="gated_delta", mode="auto"):
    return linattn_jax.linear_attention(
        **inputs, update_rule=rule, execution_mode=mode, chunk_size=CHUNK
    )


def loss(inputs, rule="gated_delta", mode="auto"):
    output, state = attend(inputs, rule, mode)
    return jnp.sum(jnp.sin(output)) + jnp.sum(jnp.cos(state))


def draw_one_query_head(rule="gated_delta", **sizes):
    return draw(rule, query_heads=HEADS, **sizes)


def lowered_loops(function, inputs):
    """The number of steps of every loop of the program for this machine."""
    text = jax.jit(function).lower(inputs).as_text()
    return [int(n) for n in _limits(text)]


def _limits(text):
    for block in text.split("stablehlo.while")[1:]:
        condition = block.split("do {")[0]
        yield condition.split("dense<")[1].split(">")[0]


def test_it_runs_token_by_token_and_is_differentiated_in_chunks():
    inputs = draw_one_query_head(tokens=5 * CHUNK)
    assert 5 * CHUNK in lowered_loops(attend, inputs)
    gradient_loops = lowered_loops(jax.grad(loss), inputs)
    assert 5 in gradient_loops
    assert 5 * CHUNK not in gradient_loops


@pytest.mark.parametrize("rule", LOOPED)
def test_values_and_gradients_are_those_of_the_forms(rule):
    inputs = draw_one_query_head(rule)
    wanted = expected(inputs, rule)
    assert_close(attend(inputs, rule), wanted)
    assert_close(jax.jit(partial(attend, rule=rule))(inputs), wanted)
    slopes = jax.grad(partial(loss, rule=rule, mode="parallel"))(inputs)
    assert_close(jax.jit(jax.grad(partial(loss, rule=rule)))(inputs), slopes)
    assert_close(jax.grad(jax.checkpoint(partial(loss, rule=rule)))(inputs), slopes)
    _, slope = jax.jvp(partial(loss, rule=rule), (inputs,), (inputs,))
    assert_close(slope, sum(np.vdot(slopes[name], inputs[name]) for name in inputs))


@pytest.mark.parametrize("name", ["query", "key", "value", "log_decay", "beta", "initial_state"])
def test_one_argument_alone_can_be_differentiated(name):
    inputs = draw_one_query_head()

    def gradient(mode):
        return jax.grad(lambda x: loss(inputs | {name: x}, mode=mode))(jnp.asarray(inputs[name]))

    assert_close(gradient("auto"), gradient("parallel"))


def test_it_maps_and_differentiates_twice():
    inputs = draw_one_query_head(batch=1, tokens=3)
    stacked = jax.tree.map(lambda x: np.stack([x, x / 2]), inputs)
    wanted = [expected(jax.tree.map(lambda x, n=n: x[n], stacked)) for n in range(2)]
    assert_close(jax.vmap(attend)(stacked), jax.tree.map(lambda *x: np.stack(x), *wanted))

    def hessian(mode):
        return jax.hessian(lambda beta: loss(inputs | {"beta": beta}, mode=mode))(inputs["beta"])

    assert_close(hessian("auto"), hessian("parallel"))
    automatic, parallel = (
        jax.vmap(jax.grad(partial(loss, mode=mode)))(stacked) for mode in ("auto", "parallel")
    )
    assert_close(automatic, parallel)


def spec(name):
    return P("rows", "heads") if name == "initial_state" else P("rows", None, "heads")


@pytest.mark.parametrize("axis_type", [AxisType.Auto, AxisType.Explicit])
def test_it_may_be_sharded(axis_type):
    inputs = draw_one_query_head()
    devices = jax.make_mesh((2, 2), ("rows", "heads"), axis_types=(axis_type, axis_type))
    with jax.set_mesh(devices):
        sharded = {
            name: jax.device_put(x, NamedSharding(devices, spec(name)))
            for name, x in inputs.items()
        }
        results, slopes = jax.jit(attend)(sharded), jax.jit(jax.grad(loss))(sharded)
    assert_close(results, expected(inputs))
    assert_close(slopes, jax.grad(loss)(inputs))


def test_it_runs_in_shard_map():
    inputs = draw_one_query_head()
    mapped = jax.shard_map(
        attend,
        mesh=jax.make_mesh((2, 2), ("rows", "heads"), axis_types=(AxisType.Auto,) * 2),
        in_specs=({name: spec(name) for name in inputs},),
        out_specs=(spec("output"), spec("initial_state")),
        check_vma=True,
    )

    def mapped_loss(inputs):
        output, state = mapped(inputs)
        return jnp.sum(jnp.sin(output)) + jnp.sum(jnp.cos(state))

    assert_close(jax.jit(mapped)(inputs), expected(inputs))
    assert_close(jax.jit(jax.grad(mapped_loss))(inputs), jax.grad(loss)(inputs))


@pytest.mark.parametrize("platforms", [None, ("cpu", "cuda", "tpu")])
def test_it_is_exported_with_symbolic_sizes_also_for_other_platforms(platforms):
    batch, tokens = export.symbolic_shape("batch, tokens")
    inputs = draw_one_query_head()
    shapes = {
        name: jax.ShapeDtypeStruct(
            (batch, *x.shape[1:]) if name == "initial_state" else (batch, tokens, *x.shape[2:]),
            x.dtype,
        )
        for name, x in inputs.items()
    }
    exported = export.export(jax.jit(attend), platforms=platforms)(shapes)
    exported = export.deserialize(exported.serialize(vjp_order=1))
    output, pull_back = jax.vjp(exported.call, inputs)
    assert_close(output, expected(inputs))
    cotangents = jax.tree.map(jnp.cos, output)
    wanted = jax.vjp(partial(attend, mode="parallel"), inputs)[1](cotangents)
    assert_close(pull_back(cotangents), wanted)


@pytest.mark.parametrize("tokens", [0, 1, 2])
def test_few_tokens(tokens):
    inputs = draw_one_query_head(tokens=tokens)
    assert_close(attend(inputs)[1], expected(inputs)[1])
