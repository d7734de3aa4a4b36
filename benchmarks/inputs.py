"""The arrays of a run as files, written once and read by every process."""

import numpy as np

from benchmarks.problems import draw

MAPPED = {"mmap_mode": "r"}


def write(folder, arrays):
    folder.mkdir(parents=True, exist_ok=True)
    for name, x in arrays.items():
        np.save(folder / f"{name}.npy", x)


def write_inputs(folder, shape, dtype):
    """Draws what problems of this shape and dtype take, unless it is there."""
    target = folder / f"{'x'.join(map(str, shape))}-{dtype}"
    if not target.exists():
        write(target, draw(shape, dtype))
    return target


def read(folder, names):
    """`{argument: array}` for `{argument: name of the array}`."""
    return {key: np.load(folder / f"{name}.npy", **MAPPED) for key, name in names.items()}


def read_inputs(folder, problem):
    """The arguments of a problem, and the cotangents of its results by the results' names."""
    cotangents = {name: f"d_{name}" for name in problem.results}
    return read(folder, problem.inputs), read(folder, cotangents)


def read_expected(folder):
    """What the results are compared with, by name; empty if nothing was written."""
    return {path.stem: np.load(path, **MAPPED) for path in sorted(folder.glob("*.npy"))}
