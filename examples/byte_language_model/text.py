"""The text: the language reference that every Python carries, as bytes."""

from pydoc_data.topics import topics

import numpy as np

VOCABULARY = 256


def load(held_out=0.1):
    """The training part and the validation part, which is the end of the text.

    Topics quote each other: a paragraph is taken once, so that none of the end was seen before.
    """
    paragraphs = {}
    for name in sorted(topics):
        for paragraph in topics[name].split("\n\n"):
            paragraphs.setdefault(" ".join(paragraph.split()), paragraph)
    text = "\n\n".join(paragraphs.values())
    data = np.frombuffer(text.encode("utf-8"), np.uint8).astype("int32")
    end = round(len(data) * (1 - held_out))
    return data[:end], data[end:]


def consecutive(data, window):
    """Windows that predict every byte of `data` once, the very first and a rest apart."""
    count = (len(data) - 1) // window
    size = count * window
    return data[:size].reshape(count, window), data[1 : size + 1].reshape(count, window)


def at(data, starts, window):
    """The windows that begin at `starts`, and the bytes that follow theirs."""
    places = np.asarray(starts)[:, None] + np.arange(window)
    return data[places], data[places + 1]
