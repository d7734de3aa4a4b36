"""Trains the model, streams from it, saves and reloads it, measures what a token costs."""

import argparse
import sys
import time
from pathlib import Path

import keras
import numpy as np

from byte_language_model import baselines, picture, report, scaling, text, training
from byte_language_model.model import language_model, streaming_model
from byte_language_model.settings import FULL, QUICK
from byte_language_model.streaming import Stream, speed, write

# What a full run must stay below; a quick one must be better than the frequencies of bytes.
BITS_PER_BYTE = 2.6
# Of logits in float32 that are computed in another order.
STREAMING_ERROR = 1e-4


def main():
    begin = time.perf_counter()
    arguments = parse()
    settings = QUICK if arguments.quick else FULL
    arguments.output.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(training.SEED)
    train, validation = text.load()
    figures = {"backend": keras.backend.backend(), "quick": arguments.quick}
    checks = {}

    report.heading("Training")
    model = language_model(settings.width, settings.blocks, settings.heads)
    learn(model, settings, train, validation, figures, checks)
    figures["seconds"] = {"training": time.perf_counter() - begin}

    report.heading("Streaming")
    stepper = streaming_model(model)
    writing = write(Stream(stepper), validation[: settings.prompt], settings.generated)
    figures["bytes_per_second"] = {"while writing": writing}
    compare(model, stepper, validation[: settings.compared], figures, checks)

    report.heading("Speed and state")
    stream = Stream(stepper)
    measure(stream, settings, train, figures, checks)

    report.heading("Saving and reloading")
    path = arguments.output / "model.keras"
    reload(stream, path, validation[: settings.prompt], checks)

    report.heading("Cost of a token against context")
    layers = scaling.measure(settings.width, settings.heads, settings.contexts)
    figures["cost_per_token"] = {"contexts": settings.contexts, "layers": layers}
    figures["seconds"]["all"] = time.perf_counter() - begin
    picture.draw(arguments.output / "picture.png", figures)
    report.write(arguments.output / "figures.json", figures, checks)
    report.show(figures, checks)
    print(f"picture.png, figures.json and model.keras are in {arguments.output}")
    return 0 if all(checks.values()) else 1


def learn(model, settings, train, validation, figures, checks):
    """Trains the model; it must predict better than counting, or than the promised figure."""
    curves = training.train(model, train, validation, settings)
    figures["parameters"] = model.count_params()
    figures["bits_per_byte"] = bits = {
        "training": curves[0],
        "validation": curves[1],
        "unigram": baselines.unigram(train, validation),
        "bigram": baselines.bigram(train, validation),
        "model": training.bits_per_byte(model, validation, settings),
    }
    limit = bits["unigram"] if settings is QUICK else BITS_PER_BYTE
    checks[f"bits per byte below {limit:.3f}"] = bits["model"] < limit


def compare(model, stepper, data, figures, checks):
    """Reads `data` byte by byte and as a whole: the logits must be the same."""
    difference = Stream(stepper).read_each(data) - model.predict_on_batch(data[None])[0]
    figures["streaming_error"] = error = float(np.abs(difference).max())
    print(f"byte by byte and as a whole, logits differ by {error:.1e} at most")
    checks["streaming equals the whole sequence"] = error < STREAMING_ERROR


def measure(stream, settings, data, figures, checks):
    """Speed and size of the state early and late in one long stream: the size must be the same."""
    figures["state_bytes"] = sizes = {"at position 0": stream.state_bytes}
    for position in (settings.near, settings.far):
        stream.prefill(data[stream.position : position])
        where = f"at position {stream.position}"
        timed = data[stream.position : stream.position + settings.timed]
        figures["bytes_per_second"][where] = rate = speed(stream, timed)
        sizes[where] = stream.state_bytes
        print(f"{where}: {rate:.0f} bytes per second, state of {stream.state_bytes} bytes")
    checks["the state has one size"] = len(set(sizes.values())) == 1


def reload(stream, path, data, checks):
    """Saves and loads the model: from the same state it must continue with the same bits."""
    stream.model.save(path)
    reloaded = Stream(keras.models.load_model(path))
    reloaded.state = stream.state
    same = np.array_equal(reloaded.read_each(data), stream.read_each(data))
    print(f"{path.name} continues the stream identically: {'yes' if same else 'no'}")
    checks["the reloaded model continues identically"] = same


def parse():
    parser = argparse.ArgumentParser(prog="byte_language_model", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes and few steps")
    parser.add_argument("--output", type=Path, default=Path("demo-results"), metavar="FOLDER")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
