"""Batch and heads may be sharded: by the compiler, by explicit types, or by hand."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from problem import CHUNK, MODES, assert_close, draw, expected

import linattn_jax

RULES_AND_MODES = [
    ("linear", "parallel"),
    ("gated_delta", "parallel"),
    ("gated_delta", "recurrent"),
]


def attend(inputs, rule, mode):
    return linattn_jax.linear_attention(
        **inputs, update_rule=rule, execution_mode=mode, chunk_size=CHUNK
    )


def gradient(function):
    def loss(inputs):
        output, state = function(inputs)
        return jnp.sum(jnp.sin(output)) + jnp.sum(jnp.cos(state))

    return jax.jit(jax.grad(loss))


def spec(name):
    return P("rows", "heads") if name == "initial_state" else P("rows", None, "heads")


def mesh(axis_type):
    return jax.make_mesh((2, 2), ("rows", "heads"), axis_types=(axis_type, axis_type))


@pytest.mark.parametrize("state", [True, False])
@pytest.mark.parametrize(("rule", "mode"), RULES_AND_MODES)
@pytest.mark.parametrize("axis_type", [AxisType.Auto, AxisType.Explicit])
def test_sharded_arrays_give_sharded_results(axis_type, rule, mode, state):
    inputs = draw(rule, state=state)
    function = partial(attend, rule=rule, mode=mode)
    devices = mesh(axis_type)
    with jax.set_mesh(devices):
        sharded = {
            name: jax.device_put(x, NamedSharding(devices, spec(name)))
            for name, x in inputs.items()
        }
        output, final_state = jax.jit(function)(sharded)
        slopes = gradient(function)(sharded)
    assert_close((output, final_state), expected(inputs, rule))
    assert_close(slopes, gradient(function)(inputs))
    assert output.sharding.shard_shape(output.shape)[0] == output.shape[0] // 2
    assert final_state.sharding.shard_shape(final_state.shape)[1] == final_state.shape[1] // 2


@pytest.mark.parametrize("state", [True, False])
@pytest.mark.parametrize(("rule", "mode"), RULES_AND_MODES)
def test_shard_map_gives_what_one_device_gives(rule, mode, state):
    inputs = draw(rule, state=state)
    function = partial(attend, rule=rule, mode=mode)
    mapped = jax.shard_map(
        function,
        mesh=mesh(AxisType.Auto),
        in_specs=({name: spec(name) for name in inputs},),
        out_specs=(spec("output"), spec("initial_state")),
        check_vma=True,
    )
    assert_close(jax.jit(mapped)(inputs), expected(inputs, rule))
    assert_close(gradient(mapped)(inputs), gradient(function)(inputs))


@pytest.mark.parametrize("mode", MODES)
def test_shard_map_takes_a_state_made_inside(mode):
    inputs = draw(state=False)
    shape = (2, 1, inputs["key"].shape[-1], inputs["value"].shape[-1])

    def with_zeros(inputs):
        return attend(inputs | {"initial_state": jnp.zeros(shape)}, "gated_delta", mode)

    mapped = jax.shard_map(
        with_zeros,
        mesh=mesh(AxisType.Auto),
        in_specs=({name: spec(name) for name in inputs},),
        out_specs=(spec("output"), spec("initial_state")),
        check_vma=True,
    )
    assert_close(jax.jit(mapped)(inputs), expected(inputs))


def test_kernelized_attention_runs_in_shard_map():
    inputs = draw("linear", state=False)

    def function(inputs):
        return linattn_jax.kernelized_attention(**inputs, causal=True, chunk_size=CHUNK)[0]

    mapped = jax.shard_map(
        function,
        mesh=mesh(AxisType.Auto),
        in_specs=({name: spec(name) for name in inputs},),
        out_specs=spec("output"),
        check_vma=True,
    )
    assert_close(jax.jit(mapped)(inputs), function(jax.tree.map(np.asarray, inputs)))
