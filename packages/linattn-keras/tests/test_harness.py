"""Keras' own layer test, as for the layers of Keras, over the layer's arguments."""

import keras
import numpy as np
import pytest
from harness import run_layer_test

B, T, D = 2, 5, 6
SIZES = dict(num_heads=2, key_dim=3)


@keras.saving.register_keras_serializable(package="linattn_tests")
def softplus(x):
    return keras.ops.softplus(x)


# What is expected where nothing else is said.
USUAL = dict(
    input_shape=(B, T, D),
    expected_output_shape=(B, T, D),
    expected_output_dtype="float32",
    expected_num_trainable_weights=8,
    expected_num_non_trainable_weights=0,
    expected_num_non_trainable_variables=0,
    expected_num_seed_generators=0,
    expected_num_losses=0,
    supports_masking=True,
)

# Differs in sizes alone from one that is trained, which takes a compilation.
UNTRAINED = dict(run_training_check=False)

# A name -> constructor arguments, and what they change of what is expected.
CONFIGURATIONS = {
    "not causal": ({}, {}),
    "causal": (dict(causal=True), {}),
    "not normalized": (dict(use_normalizer=False), UNTRAINED),
    "causal and not normalized": (dict(causal=True, use_normalizer=False), UNTRAINED),
    "relu": (dict(feature_map="relu", normalization_epsilon=1e-3), UNTRAINED),
    "registered callable": (dict(feature_map=softplus, causal=True), {}),
    "value_dim": (dict(value_dim=5, causal=True), UNTRAINED),
    "output_shape": (dict(output_shape=7), dict(expected_output_shape=(B, T, 7)) | UNTRAINED),
    "output_shape of one axis": (
        dict(output_shape=(7,)),
        dict(expected_output_shape=(B, T, 7)) | UNTRAINED,
    ),
    "dropout": (
        dict(dropout=0.3, seed=1),
        dict(expected_num_seed_generators=1, expected_num_non_trainable_variables=1),
    ),
    "weight regularizers": (
        dict(kernel_regularizer="l2", bias_regularizer="l1"),
        dict(expected_num_losses=8),
    ),
    "activity regularizer": (dict(activity_regularizer="l2"), dict(expected_num_losses=4)),
    "constraints": (dict(kernel_constraint="max_norm", bias_constraint="non_neg"), {}),
    "initializers": (dict(kernel_initializer="he_normal", bias_initializer="ones"), UNTRAINED),
    "no biases": (dict(use_bias=False), dict(expected_num_trainable_weights=4) | UNTRAINED),
    "recurrent": (dict(causal=True, execution_mode="recurrent"), {}),
    "parallel": (dict(causal=True, execution_mode="parallel"), UNTRAINED),
    "native": (dict(causal=True, native=True), UNTRAINED),
    "portable": (dict(causal=True, native=False), {}),
    "portable and not causal": (dict(native=False), UNTRAINED),
    "a mask": ({}, dict(call_kwargs=dict(mask=np.tri(B, T, 2, dtype="bool"))) | UNTRAINED),
    "one token": (
        dict(causal=True),
        dict(input_shape=(B, 1, D), expected_output_shape=(B, 1, D)) | UNTRAINED,
    ),
    # The harness trains towards one tensor.
    "returned state": (
        dict(causal=True, value_dim=5),
        dict(
            call_kwargs=dict(return_state=True),
            expected_output_shape=((B, T, D), ((B, 2, 3, 5), (B, 2, 3))),
            expected_output_dtype=("float32", ("float32", "float32")),
            run_training_check=False,
        ),
    ),
    "returned state, not normalized": (
        dict(causal=True, value_dim=5, use_normalizer=False),
        dict(
            call_kwargs=dict(return_state=True),
            expected_output_shape=((B, T, D), ((B, 2, 3, 5),)),
            expected_output_dtype=("float32", ("float32",)),
            run_training_check=False,
        ),
    ),
}


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_the_layer_passes_the_test_of_keras_own_layers(configuration):
    arguments, expectations = CONFIGURATIONS[configuration]
    run_layer_test(SIZES | arguments, **(USUAL | expectations))


def test_the_harness_finds_a_wrong_expectation():
    with pytest.raises(AssertionError, match="Unexpected number of trainable_weights"):
        run_layer_test(SIZES, **(USUAL | dict(expected_num_trainable_weights=7)))
