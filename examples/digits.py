"""Handwritten digits, read row by row by a LinearAttention that sees both ways.

A digit is a sequence of rows of eight pixels. Scans are often cut off, so the first row, the last,
or both may be missing: sequences differ in length, are padded, and come with a mask. Padding may
hold anything, NaN too. `python examples/digits.py`; needs scikit-learn.
"""

import os
import sys

# Both are read once, when Keras and PyTorch are first imported.
os.environ.setdefault("KERAS_BACKEND", "torch")
# Arrays are small here: on a busy machine threads wait for each other longer than they compute.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import keras
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from linattn_keras import LinearAttention

ROWS = 8
CLASSES = 10
CUTS = [(0, 0), (0, 1), (1, 0), (1, 1)]  # rows missing at the top, at the bottom
WIDTH, HEADS, BLOCKS = 64, 4, 2
BATCH, EPOCHS = 128, 12
ACCURACY = 0.95


def main():
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    images, classes = load_digits(return_X_y=True)
    images = (images.reshape(-1, ROWS, ROWS) / 16).astype("float32")
    train, test, train_classes, test_classes = train_test_split(
        images, classes, test_size=0.25, stratify=classes, random_state=0
    )
    # Every cut of each training digit; one at random of each test digit.
    rows, mask = sequences(np.repeat(train, len(CUTS), axis=0), CUTS * len(train))
    test_rows, test_mask = sequences(test, random.choice(CUTS, len(test)))

    model = classifier()
    steps = EPOCHS * len(rows) // BATCH
    model.compile(
        keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(5e-3, steps)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    targets = np.repeat(train_classes, len(CUTS))
    model.fit([rows, mask], targets, batch_size=BATCH, epochs=EPOCHS)

    predictions = model.predict([test_rows, test_mask], verbose=0)
    accuracy = float((predictions.argmax(axis=1) == test_classes).mean())
    unchanged = True
    for garbage in (1e6, np.inf, np.nan):
        spoilt = np.where(test_mask[..., None], test_rows, np.float32(garbage))
        again = model.predict([spoilt, test_mask], verbose=0)
        unchanged &= np.array_equal(again, predictions)

    lengths, counts = np.unique(test_mask.sum(axis=1), return_counts=True)
    print(f"backend {keras.backend.backend()}")
    for length, count in zip(lengths, counts, strict=True):
        print(f"test digits of {length} rows: {count}")
    print(f"test accuracy {accuracy:.4f}, to be above {ACCURACY}")
    print(f"garbage in the padding (1e6, inf, NaN) changes no logit: {unchanged}")
    return 0 if accuracy > ACCURACY and unchanged else 1


def sequences(images, cuts):
    """Rows `[N, 8, 16]`, padded at the end, and the mask `[N, 8]` of those that are the digit's.

    A row is its pixels and its place in the sequence: attention does not know of an order.
    """
    rows = np.zeros((len(images), ROWS, 2 * ROWS), "float32")
    mask = np.zeros((len(images), ROWS), bool)
    for i, (image, (top, bottom)) in enumerate(zip(images, cuts, strict=True)):
        length = ROWS - top - bottom
        rows[i, :length, :ROWS] = image[top : top + length]
        rows[i, :length, ROWS:] = np.eye(length, ROWS)
        mask[i, :length] = True
    return rows, mask


def classifier():
    """A model that takes rows and their mask, and gives logits `[N, 10]`."""
    rows = keras.Input((ROWS, 2 * ROWS))
    mask = keras.Input((ROWS,), dtype="bool")
    x = keras.layers.GaussianNoise(0.1)(rows)
    x = keras.layers.Rescaling(3.0)(x)  # to about unit variance: most entries are 0
    x = keras.layers.Dense(2 * WIDTH, activation="gelu")(x)
    x = keras.layers.Dense(WIDTH)(x)
    for _ in range(BLOCKS):
        x = x + attend(keras.layers.LayerNormalization()(x), mask)
        y = keras.layers.LayerNormalization()(x)
        y = keras.layers.Dense(2 * WIDTH, activation="gelu")(y)
        x = x + keras.layers.Dense(WIDTH)(y)
    # What padding held has come along so far, unread by other rows. The last attention is 0 there.
    x = attend(keras.layers.LayerNormalization()(x), mask)
    x = keras.layers.GlobalAveragePooling1D()(x, mask=mask)
    return keras.Model([rows, mask], keras.layers.Dense(CLASSES)(x))


def attend(x, mask):
    return LinearAttention(HEADS, WIDTH // HEADS, dropout=0.2)(x, mask=mask)


if __name__ == "__main__":
    sys.exit(main())
