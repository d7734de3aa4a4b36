"""The parallel form stays lean: nothing of the size T x T or T x Dk x Dv, forward and backward."""

import tracemalloc
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from problem import RULES, cotangents, problem

from linattn_core import (
    kernelized_attention,
    kernelized_attention_vjp,
    linear_attention,
    linear_attention_vjp,
)

# T * Dk * Dv < T * T, and everything the form may keep (a state for every chunk of 4) is smaller.
T, DK, DV = 97, 8, 9
LIMIT = T * DK * DV
SIZES = dict(B=1, T=T, Hq=1, Hk=1, Hv=1, Dk=DK, Dv=DV)
PARALLEL = dict(execution_mode="parallel", chunk_size=4)


class Watched(np.ndarray):
    """An array that makes every array computed from it a watched one, and notes their shapes."""

    shapes: ClassVar[list] = []

    def __array_finalize__(self, _):
        self.shapes.append(self.shape)

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return watch(getattr(ufunc, method)(*unwatch(inputs), **unwatch(options)))

    def __array_function__(self, function, _, arguments, options):
        return watch(function(*unwatch(arguments), **unwatch(options)))


def watch(x):
    if isinstance(x, np.ndarray):
        return x.view(Watched)
    return type(x)(map(watch, x)) if isinstance(x, (list, tuple)) else x


def unwatch(x):
    if isinstance(x, Watched):
        return x.view(np.ndarray)
    if isinstance(x, dict):
        return {name: unwatch(value) for name, value in x.items()}
    return type(x)(map(unwatch, x)) if isinstance(x, (list, tuple)) else x


def excesses(function, inputs):
    """The shapes, in whatever layout, of arrays that the parallel form must not make."""
    Watched.shapes.clear()
    result = function(**{name: watch(x) for name, x in inputs.items()})
    results = result.values() if isinstance(result, dict) else result
    assert all(isinstance(x, Watched) for x in results if x is not None), "the watch was lost"
    return {shape for shape in Watched.shapes if np.prod(shape) >= LIMIT}


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("per_key", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_nothing_is_quadratic_in_tokens_and_no_state_is_kept_per_token(rule, per_key, segments):
    inputs = problem(rule, per_key=per_key, **SIZES)
    arguments = dict(update_rule=rule, mask=np.arange(T)[None] % 5 > 0, **PARALLEL)
    if segments:
        arguments["segment_ids"] = np.arange(T)[None] // 10
    assert excesses(partial(linear_attention, **arguments), inputs) == set()
    backward = partial(linear_attention_vjp, **arguments)
    assert excesses(backward, inputs | cotangents(inputs)) == set()


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_nor_by_kernel_attention(causal, segments):
    inputs = problem("linear", state=False, **SIZES)
    arguments = dict(causal=causal, **PARALLEL)
    if segments:
        arguments["segment_ids"] = np.arange(T)[None] // 10
    output_cotangent = cotangents(inputs)["output_cotangent"]

    def forward(**inputs):
        return kernelized_attention(**inputs, **arguments)[:1]

    def backward(**inputs):
        gradients = kernelized_attention_vjp(**inputs, **arguments)
        return {name: gradients[name] for name in ("query", "key", "value")}

    assert excesses(forward, inputs) == set()
    assert excesses(backward, inputs | {"output_cotangent": output_cotangent}) == set()


def quadratic(query, key, value):
    """Linear attention by way of all T x T products."""
    products = np.tril(query.swapaxes(1, 2) @ key.transpose(0, 2, 3, 1))
    return (products @ value.swapaxes(1, 2)).swapaxes(1, 2), None


def state_per_token(query, key, value):
    """Linear attention by way of the state after every token."""
    states = np.cumsum(key[..., None] * value[..., None, :], axis=1)
    return np.squeeze(query[..., None, :] @ states, axis=-2), states[:, -1]


@pytest.mark.parametrize("planted", [quadratic, state_per_token])
def test_the_check_finds_what_the_form_must_not_make(planted):
    inputs = problem("linear", state=False, **SIZES)
    output, _ = planted(**inputs)
    np.testing.assert_allclose(output, linear_attention(**inputs, scale=1.0)[0], atol=1e-12)
    assert excesses(planted, inputs)


def peak(tokens, width, mode):
    """The most bytes that the gradients of a sequence hold at one time."""
    sizes = dict(B=1, T=tokens, Hq=1, Hk=1, Hv=1, Dk=width, Dv=width)
    inputs = problem("gated_delta", **sizes)
    arguments = inputs | cotangents(inputs)
    tracemalloc.start()
    linear_attention_vjp(**arguments, update_rule="gated_delta", execution_mode=mode, chunk_size=16)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def test_memory_grows_no_faster_than_the_sequence():
    assert peak(1024, 16, "parallel") < 2.1 * peak(512, 16, "parallel")


def test_a_state_for_every_chunk_is_a_fraction_of_a_state_for_every_token():
    assert 2 * peak(256, 128, "parallel") < peak(256, 128, "recurrent")
