"""What contenders are compared with, against the definition and by planted differences."""

from functools import partial

import numpy as np
import pytest

from benchmarks import reference
from benchmarks.correctness import errors, verdict
from benchmarks.problems import LINEAR, Problem, draw
from benchmarks.reference import expected
from linattn_spec import linear_attention as defined
from linattn_spec import linear_attention_vjp as defined_vjp

SHAPE = (2, 70, 2, 4)
PROBLEMS = [Problem(rule, SHAPE) for rule in LINEAR] + [Problem("gated_delta", SHAPE, True)]


def arrays(problem):
    drawn = draw(problem.shape, problem.dtype)
    inputs = {name: drawn[array] for name, array in problem.inputs.items()}
    return inputs, {name: drawn[f"d_{name}"] for name in problem.results}


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_the_reference_is_the_definition(problem):
    inputs, cotangents = arrays(problem)
    found = expected(problem, "gradient", inputs, cotangents)
    output, state = defined(**inputs, update_rule=problem.rule)
    np.testing.assert_allclose(found["output"], output, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["final_state"], state, rtol=1e-9, atol=1e-12)
    incoming = {f"{name}_cotangent": x for name, x in cotangents.items()}
    gradients = defined_vjp(**inputs, **incoming, update_rule=problem.rule)
    assert {f"gradient.{name}" for name in inputs} == found.keys() - set(problem.results)
    for name in inputs:
        wanted = gradients[name]
        np.testing.assert_allclose(found[f"gradient.{name}"], wanted, rtol=1e-9, atol=1e-10)


def test_a_step_ends_where_the_sequence_does():
    problem = Problem("gated_delta", SHAPE)
    call = partial(expected, problem, inputs=arrays(problem)[0], cotangents={})
    whole, step = call(which="forward"), call(which="step")
    np.testing.assert_array_equal(step["final_state"], whole["final_state"])
    np.testing.assert_array_equal(step["last_output"], whole["output"][:, -1])


def test_the_gradients_of_softmax_attention_are_those_of_small_steps():
    random = np.random.default_rng(0)
    inputs = {n: random.standard_normal((1, 5, 2, 3)) for n in ("query", "key", "value")}
    d_output = random.standard_normal((1, 5, 2, 3))
    found = reference.softmax(inputs, d_output)
    for name, x in inputs.items():
        direction = random.standard_normal(x.shape)
        ends = (
            np.sum(
                d_output * reference.softmax(inputs | {name: x + h * direction}, d_output)["output"]
            )
            for h in (1e-6, -1e-6)
        )
        slope = np.subtract(*ends) / 2e-6
        np.testing.assert_allclose(slope, np.sum(found[f"gradient.{name}"] * direction), rtol=1e-7)


def test_rows_of_softmax_attention_are_those_of_all_of_it(monkeypatch):
    problem = Problem("softmax", (2, 150, 2, 4))
    inputs, cotangents = arrays(problem)
    whole = expected(problem, "forward", inputs, cotangents)["output"]
    monkeypatch.setattr(reference, "LONGEST_SOFTMAX", 100)
    found = expected(problem, "forward", inputs, cotangents)
    np.testing.assert_allclose(found["output"], whole[:, :64], rtol=1e-10)
    np.testing.assert_allclose(found["last_rows"], whole[:, -64:], rtol=1e-10)
    assert not verdict(errors({"output": whole}, found, inputs, False), "float32")
    whole[:, -1] *= 1.01
    assert "last_rows" in verdict(errors({"output": whole}, found, inputs, False), "float32")


def test_a_gradient_through_a_normalisation_is_compared_across_the_vector():
    x = np.array([[0.6, 0.8]])
    wanted = {"gradient.query": np.array([[1.0, 2.0]])}
    across = wanted["gradient.query"] - x * 2.2
    inputs = {"query": x}
    assert errors({"gradient.query": across}, wanted, inputs, True)["gradient.query"] < 1e-12
    assert errors({"gradient.query": across}, wanted, inputs, False)["gradient.query"] > 0.1


def test_bfloat16_inputs_have_eight_bits_and_are_nearest():
    whole, rounded = draw((1, 9, 2, 4), "float32"), draw((1, 9, 2, 4), "bfloat16")
    for name in ("query", "log_decay"):
        assert not (rounded[name].view("uint32") & 0xFFFF).any()
        np.testing.assert_allclose(rounded[name], whole[name], rtol=2**-8)
