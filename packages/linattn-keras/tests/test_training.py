"""Training: batches of any length, masked losses, dropout and its seeds."""

import contextlib

import keras
import numpy as np
from layers import (
    BATCH,
    WIDTH,
    arrays,
    assert_close,
    assert_same_bits,
    built,
    draw,
    gradients,
    sequence,
)
from models import either_implementation, model_of

from linattn_keras import LinearAttention


class RunningMeans(keras.utils.PyDataset):
    """Batches of several lengths, to the right of a chunk of 64 too; the target is causal."""

    lengths = (3, 70, 9)

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        inputs = sequence(self.lengths[index], seed=index)
        counts = np.arange(1, self.lengths[index] + 1, dtype="float32")
        return inputs, np.cumsum(inputs, axis=1) / counts[:, None]


@either_implementation
def test_fit_takes_batches_of_any_length_and_the_loss_falls(native):
    keras.utils.set_random_seed(0)
    model = model_of(LinearAttention(2, 4, causal=True, native=native))
    model.compile(keras.optimizers.Adam(0.05), "mse")
    losses = model.fit(RunningMeans(), epochs=12, shuffle=False, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]


class Classifier(keras.Model):
    """Class scores for every token of masked sequences."""

    def __init__(self, classes, **arguments):
        super().__init__()
        self.embedding = keras.layers.Embedding(9, WIDTH, mask_zero=True)
        self.attention = built(**arguments)
        self.scores = keras.layers.Dense(classes)

    def call(self, ids, training=None):
        return self.scores(self.attention(self.embedding(ids), training=training))


IDS = np.array([[1, 2, 3, 4, 5, 6, 7], [8, 1, 2, 3, 0, 0, 0]])


def test_training_a_subclassed_model_moves_every_weight():
    keras.utils.set_random_seed(0)
    model = Classifier(4, dropout=0.2, seed=1)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model(IDS)
    before = {w.path: arrays(w) for w in model.trainable_weights}
    for _ in range(2):
        assert np.isfinite(model.train_on_batch(IDS, IDS % 4))
    for weight in model.trainable_weights:
        after = arrays(weight)
        assert np.isfinite(after).all()
        assert np.abs(after - before[weight.path]).max() > 0, weight.path


def recognizer(**arguments):
    """Scores of 5 labels for every token of masked sequences."""
    ids = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(9, WIDTH, mask_zero=True)(ids)
    scores = keras.layers.Dense(5)(built(**arguments)(embedded))
    # An operation, not a layer: the mask ends here, for Keras' CTC can not take the one of tokens.
    return keras.Model(ids, keras.ops.log_softmax(scores))


LABELS = np.array([[1, 2, 3], [4, 1, 0]])


@either_implementation
def test_a_ctc_loss_after_a_masked_embedding_has_finite_gradients(native):
    keras.utils.set_random_seed(0)
    model = recognizer(native=native)
    ids, labels = keras.ops.convert_to_tensor(IDS), keras.ops.convert_to_tensor(LABELS)

    def loss():
        return keras.losses.CTC()(labels, model(ids))

    assert np.isfinite(arrays(loss()))
    by_weight = gradients(loss, [], model.trainable_weights)
    assert all(np.isfinite(g).all() and np.abs(g).max() > 0 for g in by_weight)
    np.testing.assert_array_equal(by_weight[0][0], 0)  # the embedding of the padding


def test_a_ctc_model_learns_after_a_masked_embedding():
    keras.utils.set_random_seed(0)
    model = recognizer(causal=True)
    model.compile(keras.optimizers.Adam(0.01), keras.losses.CTC())
    losses = [float(model.train_on_batch(IDS, LABELS)) for _ in range(6)]
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]


def test_dropout_follows_its_seed():
    first, again, other = (
        arrays(built(dropout=0.5, seed=seed)(sequence(), training=True)) for seed in (1, 1, 2)
    )
    assert_same_bits(again, first)
    assert np.abs(other - first).max() > 0.01


def test_dropout_differs_from_call_to_call():
    layer = built(dropout=0.5, seed=1)
    first, second = (arrays(layer(sequence(), training=True)) for _ in range(2))
    assert np.abs(second - first).max() > 0.01


def test_dropout_is_inactive_at_inference():
    layer = built(dropout=0.9, seed=1)
    for inference in (layer(sequence()), layer(sequence(), training=False)):
        assert_same_bits(inference, built()(sequence()))


def test_dropout_leaves_the_state_alone():
    dropped, plain = built(dropout=0.9, seed=1, causal=True), built(causal=True)
    _, state = dropped(sequence(), return_state=True, training=True)
    assert_same_bits(state, plain(sequence(), return_state=True)[1])


def test_dropout_keeps_the_mean_of_what_it_projects():
    # All heads' outputs are 1, so the layer returns how much of them was kept.
    layer = built(dropout=0.25, seed=1, output_shape=1, use_normalizer=True, use_bias=True)
    constant = {"value/kernel": 0, "value/bias": 1, "attention_output/bias": 0}
    for weight in layer.weights:
        name = "/".join(weight.path.split("/")[-2:])
        if name in constant:
            weight.assign(np.full(weight.shape, constant[name]))
        elif name == "attention_output/kernel":
            weight.assign(np.full(weight.shape, 1 / 15))
    kept = arrays(layer(draw(BATCH, 500, WIDTH), training=True))
    # 15,000 draws of 0 or 4/3 have a mean within 5 standard deviations, 5 * 0.0047, of 1.
    assert abs(kept.mean() - 1) < 0.025
    assert kept.std() > 0.1


def run_stateless(layer, *variables):
    return layer.stateless_call(*variables, sequence(), training=True)


def compiled(function):
    """`function`, compiled, and with any tracer that leaves it an error, where there is one."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function), jax.checking_leaks()
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(function), contextlib.nullcontext()
    return function, contextlib.nullcontext()


def test_a_stateless_call_returns_the_next_seed_and_leaks_nothing():
    layer = built(dropout=0.5, seed=1)
    trainable = [w.value for w in layer.trainable_variables]
    seeds = [v.value for v in layer.non_trainable_variables]
    kept = arrays(seeds)
    assert len(seeds) == 1

    call, leaks = compiled(lambda *variables: run_stateless(layer, *variables))
    with leaks:
        first, after = call(trainable, seeds)
        again, _ = call(trainable, seeds)
        second, _ = call(trainable, after)
    assert_same_bits(layer.non_trainable_variables[0].value, kept[0])
    assert np.any(arrays(after)[0] != kept[0])
    assert_same_bits(again, first)
    assert np.abs(arrays(second) - arrays(first)).max() > 0.01
    assert_close(first, built(dropout=0.5, seed=1)(sequence(), training=True), 1e-6)
