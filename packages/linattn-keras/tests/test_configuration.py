"""The layer's arguments in its config and in files, and its weights as MultiHeadAttention's."""

import keras
import numpy as np
import pytest
from layers import (
    BATCH,
    WIDTH,
    arrays,
    assert_close,
    assert_same_bits,
    built,
    draw,
    project,
    sequence,
)

from linattn_keras import LinearAttention


@keras.saving.register_keras_serializable(package="linattn_tests")
def square(x):
    return x * x


# Every constructor argument but `native`, none with its default.
ARGUMENTS = dict(
    num_heads=3,
    key_dim=4,
    value_dim=5,
    output_shape=7,
    feature_map="relu",
    use_normalizer=False,
    normalization_epsilon=1e-3,
    causal=True,
    dropout=0.25,
    use_bias=False,
    execution_mode="parallel",
    kernel_initializer=keras.initializers.RandomNormal(stddev=0.1, seed=3),
    bias_initializer=keras.initializers.Constant(0.2),
    kernel_regularizer=keras.regularizers.L2(0.1),
    bias_regularizer=keras.regularizers.L1(0.2),
    activity_regularizer=keras.regularizers.L1(0.3),
    kernel_constraint=keras.constraints.MaxNorm(0.4),
    bias_constraint=keras.constraints.NonNeg(),
    seed=11,
)
PROJECTIONS = ("query", "key", "value", "attention_output")


def kernels(layer):
    return {w.path.split("/")[-2]: w for w in layer.weights if w.path.endswith("kernel")}


def test_the_config_has_every_argument_and_makes_the_same_layer():
    layer = LinearAttention(**ARGUMENTS, name="mixer", dtype="mixed_bfloat16", trainable=False)
    config = layer.get_config()
    for name, given in ARGUMENTS.items():
        if isinstance(given, int | float | str):
            assert config[name] == given
        else:
            assert config[name]["class_name"] == type(given).__name__
    assert set(config) == set(ARGUMENTS) | {"name", "dtype", "trainable"}
    again = LinearAttention.from_config(config)
    assert again.get_config() == config
    assert again.dtype_policy.name == "mixed_bfloat16"


def test_the_config_says_nothing_of_where_the_layer_computes():
    assert LinearAttention(2, 3, native=True).get_config().keys() == set(
        LinearAttention(2, 3).get_config()
    )
    assert "native" not in LinearAttention(2, 3, native=False).get_config()


def test_a_tuple_of_one_output_size_is_that_size():
    layer = LinearAttention(2, 3, output_shape=(7,))
    assert layer.get_config()["output_shape"] == 7
    assert layer.compute_output_shape((None, None, WIDTH)) == (None, None, 7)


def test_kernels_are_drawn_apart_from_an_initializer_without_a_seed():
    layer = LinearAttention(2, 3, kernel_initializer=keras.initializers.RandomNormal())
    layer.build((None, None, WIDTH))
    query, key, value = (arrays(kernels(layer)[name]) for name in PROJECTIONS[:3])
    assert not np.allclose(query, key)
    assert not np.allclose(key, value)


def test_a_seeded_initializer_gives_the_weights_that_multi_head_attention_gets():
    initializer = keras.initializers.RandomNormal(seed=5)
    layer = LinearAttention(2, 3, kernel_initializer=initializer)
    layer.build((None, None, WIDTH))
    peer = keras.layers.MultiHeadAttention(2, 3, kernel_initializer=initializer)
    peer.build((None, None, WIDTH), (None, None, WIDTH))
    assert_same_bits([w.value for w in layer.weights], [w.value for w in peer.weights])


def test_weights_have_the_names_and_shapes_of_multi_head_attention():
    layer = LinearAttention(3, 4, 5, output_shape=7)
    layer.build((None, None, WIDTH))
    peer = keras.layers.MultiHeadAttention(3, 4, 5, output_shape=7)
    peer.build((None, None, WIDTH), (None, None, WIDTH))

    def described(weights):
        return [(*w.path.split("/")[-2:], tuple(w.shape)) for w in weights]

    assert described(layer.weights) == described(peer.weights)
    layer.set_weights(peer.get_weights())
    assert_same_bits([w.value for w in layer.weights], [w.value for w in peer.weights])


def test_regularizers_and_constraints_reach_their_weights():
    arguments = {name: ARGUMENTS[name] for name in ARGUMENTS if name.endswith(("zer", "int"))}
    layer = built(**{name: x for name, x in arguments.items() if name != "activity_regularizer"})
    for weight in layer.weights:
        kind = weight.path.split("/")[-1]
        assert weight.regularizer is arguments[f"{kind}_regularizer"]
        assert weight.constraint is arguments[f"{kind}_constraint"]
    expected = sum(
        np.sum(0.1 * w**2) if i % 2 == 0 else np.sum(0.2 * np.abs(w))
        for i, w in enumerate(layer.get_weights())
    )
    assert_close(sum(layer.losses), np.float64(expected), 1e-5)


@pytest.mark.parametrize("return_state", [False, True])
def test_activity_is_that_of_the_projections_and_not_the_states(return_state):
    layer = built(causal=True, activity_regularizer=keras.regularizers.L2(0.1))
    inputs = sequence()
    result = layer(inputs, return_state=return_state)
    outputs = result[0] if return_state else result
    projected = [project(layer, name, inputs) for name in PROJECTIONS[:3]]
    expected = sum(np.sum(0.1 * arrays(x).astype("float64") ** 2) for x in [*projected, outputs])
    # Keras counts activity per element of the batch.
    assert_close(sum(layer.losses), expected / BATCH, 1e-5)


@pytest.mark.parametrize("feature_map", ["elu_plus_one", square], ids=["named", "callable"])
def test_a_saved_and_a_cloned_model_behave_as_before(feature_map, tmp_path):
    layer = built(feature_map=feature_map, causal=True, native=False)
    source = keras.Input((None, WIDTH))
    state = layer.get_initial_state()
    model = keras.Model([source, *state], layer(source, initial_state=state, return_state=True))
    given = [sequence(), *(np.abs(draw(*x.shape)) for x in layer.get_initial_state(BATCH))]
    before = model(given)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    for again in (loaded, clone):
        (copy,) = (x for x in again.layers if isinstance(x, LinearAttention))
        assert copy is not layer
        assert copy.get_config() == layer.get_config()
        # The native package and keras.ops round differently.
        assert_close(again(given), before, 5e-6)


def test_weights_do_not_depend_on_how_the_layer_computes():
    def described(**arguments):
        layer = LinearAttention(3, 4, causal=True, name="mixer", **arguments)
        layer.build((None, None, WIDTH))
        return [(w.path, tuple(w.shape), w.dtype) for w in layer.weights]

    ways = [dict(execution_mode=mode) for mode in ("auto", "parallel", "recurrent")]
    ways += [dict(native=native) for native in (True, False)]
    assert len({tuple(described(**way)) for way in ways}) == 1


def test_no_attribute_is_named_as_the_shape_of_a_layers_output():
    assert not hasattr(LinearAttention(2, 3, output_shape=7), "output_shape")


def test_a_summary_shows_the_output_shape():
    model = keras.Sequential([keras.Input((None, WIDTH)), LinearAttention(2, 3, output_shape=7)])
    lines = []
    model.summary(print_fn=lines.append)
    assert "(None, None, 7)" in "\n".join(map(str, lines))
    assert model.layers[0].output.shape == (None, None, 7)


def test_a_config_may_say_as_little_as_a_call():
    layer = LinearAttention.from_config({"num_heads": 2, "key_dim": 3})
    assert layer.get_config()["feature_map"] == "elu_plus_one"


def test_a_function_may_initialize_the_kernels():
    layer = LinearAttention(
        2, 3, kernel_initializer=lambda shape, dtype=None: keras.ops.full(shape, 0.5, dtype=dtype)
    )
    layer.build((None, None, WIDTH))
    for kernel in kernels(layer).values():
        assert_same_bits(kernel.value, np.full(kernel.shape, 0.5))


def test_a_map_that_is_a_layer_has_its_weights_when_the_layer_is_built(tmp_path):
    inputs = keras.Input((None, WIDTH))
    feature_map = keras.layers.Dense(4, activation="softplus")
    model = keras.Model(inputs, LinearAttention(2, 3, feature_map=feature_map)(inputs))
    assert len(model.weights) == 10
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same_bits(loaded(sequence()), model(sequence()))
