"""The two sizes that the demo runs in."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """How large the model is, how long it is trained, and how much is measured."""

    width: int
    blocks: int
    heads: int
    window: int  # bytes that a training sequence has
    batch: int
    epochs: int
    steps: int  # per epoch
    learning_rate: float
    prompt: int  # bytes of text that the streams begin with
    generated: int  # bytes of text to stream
    compared: int  # bytes streamed and read as a whole: several of its chunks, of 64
    near: int  # the two positions whose speed is compared
    far: int
    timed: int  # single steps that a speed is measured over
    contexts: tuple[int, ...]  # lengths at which one decoding step of a layer is measured


FULL = Settings(
    width=128,
    blocks=2,
    heads=4,
    window=256,
    batch=4,
    epochs=15,
    steps=40,
    learning_rate=4e-3,
    prompt=100,
    generated=400,
    compared=300,
    near=100,
    far=100_000,
    timed=200,
    contexts=(256, 512, 1024, 2048, 4096, 8192, 16384),
)

QUICK = Settings(
    width=64,
    blocks=2,
    heads=2,
    window=128,
    batch=4,
    epochs=3,
    steps=25,
    learning_rate=6e-3,
    prompt=40,
    generated=60,
    compared=150,
    near=100,
    far=10_000,
    timed=40,
    contexts=(256, 1024, 4096),
)
