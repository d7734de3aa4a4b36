"""What arguments may be: arrays of NumPy and of JAX, and nothing that only looks like one."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problem import assert_close, draw, expected

import linattn_jax


@pytest.mark.parametrize("name", ["query", "key", "value"])
@pytest.mark.parametrize(
    ("thing", "called"),
    [([[1.0]], "a list of 1"), (None, "None"), (1.0, "float"), ("x", "str")],
)
def test_what_is_not_an_array_is_a_type_error(name, thing, called):
    inputs = draw("linear") | {name: thing}
    with pytest.raises(TypeError, match=re.escape(f"{name} must be a tensor, got {called}")):
        linattn_jax.linear_attention(**inputs)


def test_an_array_of_a_dtype_that_jax_lacks_is_a_type_error():
    inputs = draw("linear") | {"mask": np.array([["x"]])}
    with pytest.raises(TypeError, match="mask must be a tensor"):
        linattn_jax.linear_attention(**inputs)


@pytest.mark.parametrize("operator", ["elu_plus_one", "relu", "l2_normalize"])
def test_feature_maps_take_numpy_arrays_and_refuse_lists(operator):
    function = getattr(linattn_jax, operator)
    assert function(np.ones(3, np.float32)).dtype == "float32"
    with pytest.raises(TypeError, match="x must be a tensor, got a list of 1"):
        function([1.0])


def test_numpy_and_jax_arrays_mix():
    inputs = draw()
    mixed = inputs | {"key": jnp.asarray(inputs["key"]), "beta": jnp.asarray(inputs["beta"])}
    got = linattn_jax.linear_attention(**mixed, update_rule="gated_delta")
    assert all(isinstance(x, jax.Array) for x in got)
    assert_close(got, expected(inputs))


def test_checks_hold_while_tracing():
    inputs = draw()
    del inputs["beta"]
    with pytest.raises(ValueError, match="beta must be given for update_rule 'gated_delta'"):
        jax.eval_shape(
            lambda i: linattn_jax.linear_attention(**i, update_rule="gated_delta"), inputs
        )


def test_a_known_size_is_checked_beside_symbolic_ones():
    batch, tokens = jax.export.symbolic_shape("batch, tokens")
    query = jax.ShapeDtypeStruct((batch, tokens, 2, 3), jnp.float32)
    key = jax.ShapeDtypeStruct((batch, tokens, 2, 4), jnp.float32)
    message = "key must have shape [B, T, Hk, Dk], got [?, ?, 2, 4]: Dk is 4, but 3 in query"
    with pytest.raises(ValueError, match=re.escape(message)):
        jax.export.export(jax.jit(linattn_jax.linear_attention))(query, key, query)


def test_a_refused_call_changes_no_argument():
    inputs = draw()
    before = {name: x.copy() for name, x in inputs.items()}
    with pytest.raises(ValueError, match="chunk_size"):
        linattn_jax.linear_attention(**inputs, update_rule="gated_delta", chunk_size=0)
    for name, x in inputs.items():
        np.testing.assert_array_equal(x, before[name])


def test_auto_runs_token_by_token_for_a_single_token_only():
    def loops(tokens):
        program = jax.make_jaxpr(lambda i: linattn_jax.linear_attention(**i))(
            draw("linear", tokens=tokens)
        )
        return "scan" in str(program)

    assert loops(1)
    assert not loops(2)


@pytest.mark.parametrize("mode", ["parallel", "recurrent"])
@pytest.mark.parametrize(("batch", "tokens"), [(0, 3), (2, 0), (0, 0)])
def test_empty_arrays_give_empty_results_and_hand_the_state_on(batch, tokens, mode):
    inputs = draw(batch=batch, tokens=tokens)

    def attend(inputs):
        return linattn_jax.linear_attention(
            **inputs, update_rule="gated_delta", execution_mode=mode
        )

    output, state = attend(inputs)
    assert output.shape == (batch, tokens, *inputs["query"].shape[2:3], inputs["value"].shape[-1])
    if tokens == 0:
        np.testing.assert_array_equal(state, inputs["initial_state"])
    slopes = jax.grad(lambda i: sum(jnp.sum(x) for x in attend(i)))(inputs)
    assert jax.tree.map(jnp.shape, slopes) == jax.tree.map(np.shape, inputs)
