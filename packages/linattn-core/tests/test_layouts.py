"""Arrays of every layout are taken, and none of them is changed or handed back."""

import numpy as np
import pytest
from problem import MODES, RULES, cotangents, error, problem

from linattn_core import linear_attention, linear_attention_vjp


def strided(x):
    """The same values at other strides: every second element of a transposed copy, reversed."""
    spread = np.zeros(tuple(2 * n for n in x.shape[::-1]), x.dtype)
    view = spread[(slice(None, None, -2),) * x.ndim].T
    view[...] = x
    return view


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("per_key", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_arrays_need_not_be_contiguous_nor_writeable(rule, per_key, mode):
    inputs = problem(rule, per_key=per_key) | {"mask": np.arange(14).reshape(2, 7) % 3 > 0}
    views = {name: strided(x) for name, x in inputs.items()}
    for view in views.values():
        view.flags.writeable = False
    arguments = dict(update_rule=rule, execution_mode=mode)
    for x, y in zip(
        linear_attention(**views, **arguments),
        linear_attention(**inputs, **arguments),
        strict=True,
    ):
        assert error(x, y) < 1e-14
    given = cotangents(inputs)
    got = linear_attention_vjp(
        **views, **arguments, **{name: strided(x) for name, x in given.items()}
    )
    for name, x in linear_attention_vjp(**inputs, **arguments, **given).items():
        assert error(got[name], x) < 1e-13


def test_arrays_of_the_other_byte_order_are_taken():
    inputs = problem(dtype="float32")
    swapped = {name: x.astype(x.dtype.newbyteorder()) for name, x in inputs.items()}
    got, expected = (linear_attention(**x, update_rule="gated_delta") for x in (swapped, inputs))
    for x, y in zip(got, expected, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rule", RULES)
def test_no_call_changes_its_arguments_or_returns_one_of_them(rule, mode):
    inputs = problem(rule, T=1) | {"mask": np.zeros((2, 1), bool)}
    given = cotangents(inputs)
    before = {name: x.copy() for name, x in (inputs | given).items()}
    arguments = dict(update_rule=rule, execution_mode=mode)
    results = linear_attention(**inputs, **arguments)
    gradients = linear_attention_vjp(**inputs, **given, **arguments)
    for result in (*results, *gradients.values()):
        result[...] = 7
    for name, x in (inputs | given).items():
        np.testing.assert_array_equal(x, before[name])


@pytest.mark.parametrize(
    "refused",
    [
        {"beta": np.zeros((1, 7, 3))},
        {"segment_ids": np.zeros((2, 8), np.int32)},
        {"chunk_size": 0},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_refused_call_changes_nothing(refused):
    inputs = problem()
    before = {name: x.copy() for name, x in inputs.items()}
    with pytest.raises(ValueError, match=f"^{next(iter(refused))} must "):
        linear_attention(**(inputs | refused), update_rule="gated_delta")
    for name, x in inputs.items():
        np.testing.assert_array_equal(x, before[name])
