"""The operators on KerasTensors: as nodes of a Functional model, checked while it is built."""

import re

import keras
import numpy as np
import pytest

from linattn_keras import ops
from linattn_spec.conformance import named, result_dtype
from linattn_spec.fixtures import load_cases, one_of_each_kind

CASES = [case for case in load_cases() if case.error is None]
# One of each operator that Keras can make an input for: it has no bfloat16 NumPy arrays.
BY_OPERATOR = {
    case.operator: case
    for case in one_of_each_kind(CASES)
    if all(x.dtype in ("float32", "bool", "int32") for x in case.inputs.values())
}


def symbolic(inputs):
    """A keras.Input for every array, with an open batch, and with open tokens where there are."""
    tokens = "state" not in inputs and "x" not in inputs

    def of(name, x):
        sizes = list(x.shape[1:])
        if tokens and "state" not in name:
            sizes[0] = None
        return keras.Input(sizes, dtype=x.dtype.name, name=name)

    return {name: of(name, x) for name, x in inputs.items()}


def joined(inputs):
    """ "initial_state.0", "initial_state.1" as a tuple."""
    parts = tuple(x for name, x in sorted(inputs.items()) if name.startswith("initial_state."))
    return {name: x for name, x in inputs.items() if "." not in name} | (
        {"initial_state": parts} if parts else {}
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_shapes_and_dtypes_of_the_results_are_known_before_anything_is_computed(case):
    function = getattr(ops, case.operator)
    outputs = named(case.operator, function(**joined(symbolic(case.inputs)), **case.arguments))
    assert outputs.keys() == case.outputs.keys()
    for name, x in case.outputs.items():
        for known, size in zip(outputs[name].shape, x.shape, strict=True):
            assert known in (size, None)
        assert None not in outputs[name].shape[2:]
        assert outputs[name].dtype == result_dtype(case, name)


@pytest.mark.parametrize("case", BY_OPERATOR.values(), ids=BY_OPERATOR)
def test_a_model_of_the_operator_gives_what_the_operator_gives(case):
    inputs = symbolic(case.inputs)
    function = getattr(ops, case.operator)
    model = keras.Model(inputs, named(case.operator, function(**joined(inputs), **case.arguments)))
    tensors = {name: keras.ops.convert_to_tensor(x) for name, x in case.inputs.items()}
    got = model(tensors)
    expected = named(case.operator, function(**joined(tensors), **case.arguments))
    assert got.keys() == expected.keys() == case.outputs.keys()
    for name, x in expected.items():
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (got[name], x)))


def test_every_operator_is_tried():
    assert BY_OPERATOR.keys() == set(ops.__all__)


def test_a_saved_model_gives_the_same_and_holds_the_arguments(tmp_path):
    query, key, value = (keras.Input((None, 2, 3)) for _ in range(3))
    log_decay = keras.Input((None, 2))
    outputs = ops.linear_attention(
        query, key, value, update_rule="gated", log_decay=log_decay, scale=0.3, native=False
    )
    model = keras.Model([query, key, value, log_decay], outputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(2, 5, 2, 3)).astype("float32") for _ in range(3)]
    arrays.append(-rng.uniform(size=(2, 5, 2)).astype("float32"))
    got, (output, state) = (x.predict(arrays, verbose=0) for x in (loaded, model))
    np.testing.assert_allclose(got[0], output, rtol=1e-5, atol=1e-6)  # native rounds otherwise
    np.testing.assert_allclose(got[1], state, rtol=1e-5, atol=1e-6)
    with_another_scale, _ = ops.linear_attention(
        *arrays[:3], update_rule="gated", log_decay=arrays[3]
    )
    assert np.abs(keras.ops.convert_to_numpy(with_another_scale) - output).max() > 1e-2


@keras.saving.register_keras_serializable(package="linattn-tests")
def doubled_features(x):
    return keras.ops.concatenate([keras.ops.relu(x), keras.ops.relu(-x)], axis=-1)


def test_a_callable_map_may_change_the_width_and_is_saved(tmp_path):
    query, key, value = (keras.Input((None, 2, 3)) for _ in range(3))
    output, state = ops.kernelized_attention(
        query, key, value, feature_map=doubled_features, causal=True
    )
    assert [tuple(x.shape) for x in state] == [(None, 2, 6, 3), (None, 2, 6)]
    model = keras.Model([query, key, value], [output, *state])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(2, 5, 2, 3)).astype("float32") for _ in range(3)]
    both = (x.predict(arrays, verbose=0) for x in (model, loaded))
    for x, y in zip(*both, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("log_decay must be given for update_rule 'gated'", {"update_rule": "gated"}),
        ("mask must have shape [B, T], got [?, 4]: T is 4, but 5 in query", {"mask": (4,)}),
        ("chunk_size must be an integer >= 1, got 0", {"chunk_size": 0}),
    ],
)
def test_wrong_arguments_are_refused_while_the_model_is_built(message, arguments):
    if "mask" in arguments:
        arguments = {"mask": keras.Input(arguments["mask"], dtype="bool")}
    x = keras.Input((5, 2, 3))
    with pytest.raises(ValueError, match=re.escape(message)):
        ops.linear_attention(x, x, x, **arguments)


def test_a_map_gets_the_dtype_that_everything_is_computed_in():
    seen = []

    def spy(x):
        seen.append(keras.backend.standardize_dtype(x.dtype))
        return x

    symbolic = keras.Input((5, 2, 3), dtype="float16")
    tensor = keras.ops.ones((1, 5, 2, 3), dtype="float16")
    for x in (symbolic, tensor):
        ops.kernelized_attention(x, x, x, feature_map=spy)
    assert seen == ["float32"] * 4


def test_a_scale_of_a_model_that_is_being_built_is_refused():
    x = np.ones((1, 5, 2, 3), "float32")
    with pytest.raises(TypeError, match="scale must not be a KerasTensor"):
        ops.linear_attention(x, x, x, scale=keras.KerasTensor(()))


def test_an_unknown_number_of_heads_is_refused():
    x = keras.Input((5, None, 3))
    with pytest.raises(ValueError, match=re.escape("query must have known sizes but for B and T")):
        ops.linear_attention(x, x, x)
