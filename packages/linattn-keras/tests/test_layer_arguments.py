"""Every invalid argument is refused by its name, before anything is computed."""

import keras
import numpy as np
import pytest
from layers import BATCH, SIZES, TOKENS, WIDTH, built, sequence

from linattn_keras import LinearAttention

INVALID = {
    "num_heads": [0, -1, 2.0, "2", None, True],
    "key_dim": [0, -1, 2.0, "2", None, True],
    "value_dim": [0, -1, 2.0, "2", True],
    "output_shape": [0, -1, 2.0, "2", True, (), (2, 3), (0,), (None,), (2.0,)],
    "feature_map": ["softmax", "identity", "", None, 1],
    "use_normalizer": [None, 1, "yes"],
    "normalization_epsilon": [-1e-6, float("nan"), float("inf"), "1e-6", None, True],
    "causal": [None, 0, "no"],
    "dropout": [-0.1, 1.1, float("nan"), "0.1", None, True],
    "use_bias": [None, 1, "yes"],
    "execution_mode": ["fast", "", None, 1],
    "seed": [1.5, "1", True],
    "native": [1, 0, "auto"],
}


@pytest.mark.parametrize(
    ("name", "given"), [(name, given) for name, all_given in INVALID.items() for given in all_given]
)
def test_invalid_constructor_arguments_are_named(name, given):
    with pytest.raises(
        ValueError, match=f"invalid value for argument `{name}`, expected .*{name}="
    ):
        LinearAttention(**{**SIZES, name: given})


@pytest.mark.parametrize("name", ["kernel", "bias"])
@pytest.mark.parametrize("kind", ["initializer", "regularizer", "constraint"])
def test_unknown_initializers_regularizers_and_constraints_are_named(kind, name):
    with pytest.raises(ValueError, match="no_such_thing"):
        LinearAttention(**SIZES, **{f"{name}_{kind}": "no_such_thing"})


def test_unknown_arguments_are_refused():
    with pytest.raises((TypeError, ValueError), match="heads"):
        LinearAttention(**SIZES, heads=2)


@pytest.fixture
def no_projection(monkeypatch):
    """Fails a test in which anything is computed."""

    def compute(*_args, **_kwargs):
        raise AssertionError("a projection was computed")

    monkeypatch.setattr(keras.layers.EinsumDense, "call", compute)


def tensor(shape, symbolic, dtype="float32"):
    """An array, or a KerasTensor of the same shape."""
    return keras.KerasTensor(shape, dtype) if symbolic else np.ones(shape, dtype)


STATE = ((BATCH, 3, 4, 5), (BATCH, 3, 4))
CALLS = {  # the argument -> shapes that it must not have
    "inputs": [(BATCH, WIDTH), (BATCH, TOKENS, 1, WIDTH), (BATCH, TOKENS, WIDTH + 1), (WIDTH,)],
    "mask": [
        (TOKENS,),
        (BATCH, 1, TOKENS),
        (BATCH, TOKENS, TOKENS),
        (BATCH, TOKENS + 1),
        (BATCH + 1, TOKENS),
        (TOKENS, BATCH),
        (BATCH, 0),
    ],
    "initial_state": [
        (),
        STATE[:1],
        (*STATE, STATE[1]),
        STATE[::-1],
        (STATE[0], STATE[0]),
        ((BATCH + 1, 3, 4, 5), (BATCH + 1, 3, 4)),
        ((1, 3, 4, 5), (1, 3, 4)),
        ((BATCH, 3, 5, 4), STATE[1]),
        ((BATCH, 12, 5), STATE[1]),
        (STATE[0], (BATCH, 4, 3)),
        (STATE[0], (BATCH, 3, 4, 1)),
    ],
}
SYMBOLIC = pytest.mark.parametrize("symbolic", [False, True], ids=["eager", "symbolic"])


@SYMBOLIC
@pytest.mark.parametrize(
    ("name", "shape"),
    [(name, shape) for name, shapes in CALLS.items() for shape in shapes],
    ids=str,
)
@pytest.mark.usefixtures("no_projection")
def test_tensors_of_the_wrong_shape_are_refused_by_name(name, shape, symbolic):
    layer = built(causal=True)
    call = dict(inputs=tensor((BATCH, TOKENS, WIDTH), symbolic))
    if name == "initial_state":
        call[name] = tuple(tensor(part, symbolic) for part in shape)
    else:
        call[name] = tensor(shape, symbolic)
    with pytest.raises(ValueError, match=rf"argument `{name}`, expected(.|\n)*Received: {name}"):
        layer(**call)


@SYMBOLIC
@pytest.mark.usefixtures("no_projection")
def test_two_states_are_refused_where_there_is_one(symbolic):
    layer = built(causal=True, use_normalizer=False)
    state = tuple(tensor(shape, symbolic) for shape in STATE)
    with pytest.raises(ValueError, match=r"`initial_state`, expected a tuple \(key_value_state,\)"):
        layer(tensor((BATCH, TOKENS, WIDTH), symbolic), initial_state=state)


@pytest.mark.parametrize(
    "make",
    [
        lambda s, z: s,
        lambda s, z: {"key_value_state": s, "key_state": z},
        lambda s, z: (s, (z,)),
        lambda s, z: (s, None),
        lambda s, z: (None, None),
        lambda s, z: (s, 0.0),
        lambda s, z: 0,
        lambda s, z: "zeros",
    ],
    ids=["a tensor", "a dict", "nested", "half", "nothing", "a number", "zero", "a name"],
)
@SYMBOLIC
@pytest.mark.usefixtures("no_projection")
def test_states_of_the_wrong_structure_are_refused_by_name(symbolic, make):
    layer = built(causal=True)
    state = make(*(tensor(shape, symbolic) for shape in STATE))
    with pytest.raises((ValueError, TypeError), match="initial_state"):
        layer(tensor((BATCH, TOKENS, WIDTH), symbolic), initial_state=state)


@SYMBOLIC
@pytest.mark.parametrize("given", [1, 0, None, "yes"])
@pytest.mark.usefixtures("no_projection")
def test_return_state_must_be_a_boolean(given, symbolic):
    layer = built(causal=True)
    with pytest.raises(ValueError, match="argument `return_state`"):
        layer(tensor((BATCH, TOKENS, WIDTH), symbolic), return_state=given)


@SYMBOLIC
@pytest.mark.usefixtures("no_projection")
def test_a_layer_that_is_not_causal_has_no_state(symbolic):
    layer = built(causal=False)
    inputs = tensor((BATCH, TOKENS, WIDTH), symbolic)
    state = tuple(tensor(shape, symbolic) for shape in STATE)
    with pytest.raises(ValueError, match=r"argument `initial_state`, expected None .*causal=False"):
        layer(inputs, initial_state=state)
    with pytest.raises(ValueError, match=r"argument `return_state`, expected False .*causal=False"):
        layer(inputs, return_state=True)
    for batch_size in (2, None):
        with pytest.raises(ValueError, match=r"argument `causal`, expected True .*causal=False"):
            layer.get_initial_state(batch_size)


@pytest.mark.parametrize("given", [-1, True, 2.0, "2", [2], np.zeros(2, "int32")], ids=repr)
def test_a_batch_size_must_be_an_integer(given):
    layer = LinearAttention(**SIZES, causal=True)
    with pytest.raises(ValueError, match="argument `batch_size`, expected an integer >= 0 or None"):
        layer.get_initial_state(given)


@pytest.mark.parametrize("given", ["right", [[True] * TOKENS] * BATCH, 1.0], ids=repr)
@pytest.mark.usefixtures("no_projection")
def test_a_mask_must_be_a_tensor(given):
    with pytest.raises(TypeError, match="argument `mask`"):
        built()(sequence(), mask=given)


@pytest.mark.parametrize("shape", [(None, None, None), (None, WIDTH), (None, None, None, WIDTH)])
def test_a_layer_can_not_be_built_for_other_inputs(shape):
    layer = LinearAttention(**SIZES)
    with pytest.raises(ValueError, match="argument `inputs`"):
        layer.build(shape)
    with pytest.raises(ValueError, match="argument `inputs`"):
        layer(keras.KerasTensor(shape))
    with pytest.raises(ValueError, match="argument `inputs`"):
        layer.compute_output_shape(shape)
    assert not layer.built


@pytest.mark.parametrize(
    "feature_map",
    [lambda x: x[..., 0], lambda x: 3, lambda x: keras.ops.cast(x, "int32"), lambda x: x[:, 0]],
    ids=["a lost axis", "a number", "integers", "a lost token"],
)
def test_a_map_that_does_not_keep_its_axes_is_refused_when_the_layer_is_built(feature_map):
    layer = LinearAttention(**SIZES, causal=True, feature_map=feature_map)
    for use in (lambda: layer.build((None, None, WIDTH)), lambda: layer.get_initial_state(2)):
        with pytest.raises(ValueError, match="argument `feature_map`, expected a map of tensors"):
            use()


def test_shapes_are_known_of_a_layer_that_is_not_built():
    layer = LinearAttention(**SIZES)
    assert layer.compute_output_spec(keras.KerasTensor((2, 6, 8))).shape == (2, 6, 7)
    layer.build((None, None, WIDTH))
    with pytest.raises(ValueError, match=f"the layer was built with, {WIDTH}"):
        layer.compute_output_shape((2, 6, WIDTH + 1))


def test_a_mask_of_complex_numbers_is_refused():
    mask = keras.ops.ones((BATCH, TOKENS), dtype="complex64")
    with pytest.raises(TypeError, match="argument `mask`, expected a dtype of booleans or numbers"):
        built()(sequence(), mask=mask)


if keras.backend.backend() == "tensorflow":

    @pytest.mark.parametrize("name", ["mask", "initial_state"])
    def test_a_tensor_of_unknown_rank_is_named(name):
        import tensorflow as tf

        layer = built(causal=True)
        call = tf.function(lambda inputs, x: layer(inputs, **{name: x}))
        inputs = tf.TensorSpec((None, None, WIDTH))
        with pytest.raises(ValueError, match=f"{name} must have a known number of axes"):
            call.get_concrete_function(inputs, tf.TensorSpec(None))
