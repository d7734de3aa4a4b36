"""Reading and writing byte by byte, with a state that does not grow."""

import codecs
import statistics
import time

import numpy as np

PREFILL = 100  # bytes that are read at once where the text is given


class Stream:
    """A streaming model and its state.

    Every call is one `predict_on_batch`, which is compiled on JAX and TensorFlow and free of
    gradients on PyTorch, and does without the set-up that `predict` makes for each data set.
    """

    def __init__(self, model):
        self.model = model
        self.state = [np.zeros((1, *x.shape[1:]), x.dtype) for x in model.inputs[1:]]
        self.position = 0

    @property
    def state_bytes(self):
        return sum(x.nbytes for x in self.state)

    def read(self, data):
        """The logits `[T, 256]` after each of the bytes `data`."""
        logits, *self.state = self.model.predict_on_batch([data[None], *self.state])
        self.position += len(data)
        return logits[0]

    def read_each(self, data):
        """The same, one byte at a time."""
        return np.concatenate([self.read(data[i : i + 1]) for i in range(len(data))])

    def prefill(self, data):
        for start in range(0, len(data), PREFILL):
            self.read(data[start : start + PREFILL])


def write(stream, prompt, count, temperature=0.7, seed=0):
    """Prints the prompt and `count` bytes after it as they come; returns bytes per second."""
    random = np.random.default_rng(seed)
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    print(decoder.decode(prompt.astype("uint8").tobytes()), end="", flush=True)
    logits = stream.read_each(prompt)[-1]
    begin = time.perf_counter()
    for _ in range(count):
        # The largest of logits with Gumbel noise is a sample of their softmax.
        token = np.argmax(logits / temperature + random.gumbel(size=logits.shape))
        print(decoder.decode(bytes([token])), end="", flush=True)
        logits = stream.read(np.array([token], "int32"))[-1]
    seconds = time.perf_counter() - begin
    print(flush=True)
    return count / seconds


def speed(stream, data):
    """Bytes per second, reading `data` one byte at a time: what the median byte takes."""
    seconds = []
    for i in range(len(data)):
        begin = time.perf_counter()
        stream.read(data[i : i + 1])
        seconds.append(time.perf_counter() - begin)
    return 1 / statistics.median(seconds)
