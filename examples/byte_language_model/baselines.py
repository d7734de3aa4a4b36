"""What counting alone achieves: a model of single bytes, and one of pairs of bytes."""

import numpy as np

from byte_language_model.text import VOCABULARY

# How many observations the smoothing weighs: the unigram takes over where a byte was rarely seen.
PRIOR = 20


def unigram(train, validation):
    """Bits per byte of byte frequencies, every byte counted once more than it was seen."""
    return float(-np.log2(_frequencies(train)[validation[1:]]).mean())


def bigram(train, validation):
    """Bits per byte of frequencies after the byte before, smoothed with those of all bytes."""
    pairs = np.zeros((VOCABULARY, VOCABULARY))
    np.add.at(pairs, (train[:-1], train[1:]), 1)
    observed = pairs.sum(axis=1, keepdims=True)
    probabilities = (pairs + PRIOR * _frequencies(train)) / (observed + PRIOR)
    return float(-np.log2(probabilities[validation[:-1], validation[1:]]).mean())


def _frequencies(train):
    counts = np.bincount(train, minlength=VOCABULARY) + 1
    return counts / counts.sum()
