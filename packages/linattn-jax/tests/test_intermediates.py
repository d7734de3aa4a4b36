"""The parallel form makes nothing of size T x T, and no state per token, there and back."""

import math

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import jaxprs_in_params
from problem import RULES, draw

import linattn_jax

CHUNK = 8
TOKENS = 9 * CHUNK  # no other size of a call


def call(rule, execution_mode="parallel"):
    return lambda inputs: linattn_jax.linear_attention(
        **inputs, update_rule=rule, execution_mode=execution_mode, chunk_size=CHUNK
    )


def quadratic(inputs):
    """Linear attention by way of all T x T products: what the check must find."""
    query, key, value = (inputs[name] for name in ("query", "key", "value"))
    query = query[:, :, : key.shape[2]]
    products = jnp.tril(jnp.einsum("bihd,bjhd->bhij", query, key))
    return jnp.einsum("bhij,bjhv->bihv", products, value), inputs["initial_state"]


def equations_of(function, inputs):
    """Every equation of the program of `function`, those of inner programs too."""
    pending = [jax.make_jaxpr(function)(inputs).jaxpr]
    while pending:
        for equation in pending.pop().eqns:
            yield equation
            pending.extend(jaxprs_in_params(equation.params))


def excessive_shapes(function, inputs):
    """Two axes of T tokens, or as many elements as T states, in whatever layout."""
    shapes = {x.aval.shape for e in equations_of(function, inputs) for x in e.outvars}
    states = TOKENS * math.prod(inputs["initial_state"].shape)
    return {shape for shape in shapes if shape.count(TOKENS) > 1 or math.prod(shape) >= states}


def gradient(function):
    def loss(inputs):
        output, state = function(inputs)
        return jnp.sum(output * output) + jnp.sum(state * state)

    return jax.grad(loss)


@pytest.mark.parametrize("per_key", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_nothing_is_quadratic_in_tokens_and_no_state_is_kept_per_token(rule, per_key):
    inputs = draw(rule, tokens=TOKENS, per_key=per_key)
    assert excessive_shapes(call(rule), inputs) == set()
    assert excessive_shapes(gradient(call(rule)), inputs) == set()


def test_the_check_finds_a_quadratic_form():
    inputs = draw("linear", tokens=TOKENS)
    assert excessive_shapes(gradient(quadratic), inputs)


def test_the_check_finds_a_state_per_token():
    inputs = draw("gated_delta", tokens=TOKENS)
    assert excessive_shapes(gradient(call("gated_delta", "recurrent")), inputs)


def test_linear_has_no_loop():
    inputs = draw("linear", tokens=TOKENS)
    names = {e.primitive.name for e in equations_of(gradient(call("linear")), inputs)}
    assert "dot_general" in names
    assert not names & {"scan", "while"}


@pytest.mark.parametrize("rule", RULES)
def test_the_program_is_the_same_size_at_any_length(rule):
    sizes = {
        sum(1 for _ in equations_of(gradient(call(rule)), draw(rule, tokens=tokens)))
        for tokens in (CHUNK + 1, TOKENS + 1, 20 * TOKENS + 1)
    }
    assert len(sizes) == 1


def test_the_gradient_needs_at_most_a_quarter_of_the_memory_of_the_token_loop():
    tokens, heads, width = 512, 2, 32
    shapes = {
        name: jax.ShapeDtypeStruct((1, tokens, heads, width), jnp.float32)
        for name in ("query", "key", "value")
    } | {
        name: jax.ShapeDtypeStruct((1, tokens, heads), jnp.float32)
        for name in ("log_decay", "beta")
    }

    def temporary(mode):
        def function(inputs):
            return linattn_jax.linear_attention(
                **inputs, update_rule="gated_delta", execution_mode=mode
            )

        program = jax.jit(gradient(function)).lower(shapes).compile()
        return program.memory_analysis().temp_size_in_bytes

    assert 4 * temporary("parallel") <= temporary("recurrent")


@pytest.mark.parametrize("tokens", [4096, 16384])
def test_the_gradient_needs_no_more_memory_than_what_goes_in_and_comes_out(tokens):
    shapes = {
        name: jax.ShapeDtypeStruct((1, tokens, 8, 64), jnp.float32)
        for name in ("query", "key", "value")
    } | {name: jax.ShapeDtypeStruct((1, tokens, 8), jnp.float32) for name in ("log_decay", "beta")}

    def pulled_back(inputs, cotangents):
        results, pull_back = jax.vjp(call("gated_delta"), inputs)
        return results, pull_back(cotangents)

    program = jax.jit(pulled_back).lower(shapes, jax.eval_shape(call("gated_delta"), shapes))
    memory = program.compile().memory_analysis()
    through = memory.argument_size_in_bytes + memory.output_size_in_bytes
    assert memory.temp_size_in_bytes <= 2 * through
