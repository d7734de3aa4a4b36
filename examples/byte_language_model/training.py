"""Training, with Keras' own loop and progress bar."""

import math

import keras
import numpy as np

from byte_language_model import text

SHOWN_BATCHES = 4  # of the validation part, after each epoch; the whole of it at the end
SEED = 0


class Windows(keras.utils.PyDataset):
    """Batches of windows from random places, the same for the same step in every run."""

    def __init__(self, data, settings):
        super().__init__()
        self.data, self.settings = data, settings
        self.epoch = 0

    def __len__(self):
        return self.settings.steps

    def __getitem__(self, step):
        random = np.random.default_rng((SEED, self.epoch, step))
        starts = random.integers(len(self.data) - self.settings.window, size=self.settings.batch)
        return text.at(self.data, starts, self.settings.window)

    def on_epoch_end(self):
        self.epoch += 1


def train(model, data, validation, settings):
    """Fits `model`; returns the bits per byte of every epoch, (training, validation) each."""
    steps = settings.epochs * settings.steps
    schedule = keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0,
        warmup_target=settings.learning_rate,
        warmup_steps=steps // 10,
        decay_steps=steps - steps // 10,
    )
    model.compile(
        optimizer=keras.optimizers.AdamW(schedule, weight_decay=0.01, clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    history = model.fit(
        Windows(data, settings),
        epochs=settings.epochs,
        validation_data=text.consecutive(validation, settings.window),
        validation_batch_size=settings.batch,
        validation_steps=SHOWN_BATCHES,
    ).history
    return [bits(loss) for loss in history["loss"]], [bits(loss) for loss in history["val_loss"]]


def bits_per_byte(model, data, settings):
    """Of every byte of `data`, read in windows that know nothing of the ones before."""
    inputs, targets = text.consecutive(data, settings.window)
    return bits(model.evaluate(inputs, targets, batch_size=settings.batch))


def bits(nats):
    return nats / math.log(2)
