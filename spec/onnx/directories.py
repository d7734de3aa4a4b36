"""Node tests as they lie on disk: what they hold, and what is wrong with an answer to them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

# inputs by name -> outputs in the model's order
Run = Callable[[dict[str, np.ndarray]], list[np.ndarray]]


@dataclass(frozen=True)
class DataSet:
    name: str
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]


def read(folder: Path) -> tuple[onnx.ModelProto, list[DataSet]]:
    model = onnx.load(folder / "model.onnx")
    inputs = [x.name for x in model.graph.input]
    outputs = [x.name for x in model.graph.output]
    count = len(list(folder.glob("test_data_set_*")))
    if count == 0:
        raise ValueError(f"{folder} holds no data set")
    return model, [
        DataSet(data.name, _tensors(data, "input", inputs), _tensors(data, "output", outputs))
        for data in (folder / f"test_data_set_{i}" for i in range(count))
    ]


def _tensors(data: Path, kind: str, names: list[str]) -> dict[str, np.ndarray]:
    files = [data / f"{kind}_{i}.pb" for i in range(len(names))]
    return {
        name: numpy_helper.to_array(onnx.load_tensor(file))
        for name, file in zip(names, files, strict=True)
    }


def failure(run: Run, data_sets: list[DataSet], tolerances: dict[str, float]) -> str | None:
    """How `run` first fails, in a line, or None."""
    for data in data_sets:
        try:
            results = run(data.inputs)
        except Exception as error:  # whatever a runtime raises is how it fails
            return f"{data.name}: {one_line(error)}"
        if len(results) != len(data.outputs):
            return f"{data.name}: {len(results)} outputs, expected {len(data.outputs)}"
        for (name, expected), result in zip(data.outputs.items(), results, strict=True):
            difference = _difference(expected, result, tolerances[name])
            if difference is not None:
                return f"{data.name}: {name}: {difference}"
    return None


def one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _difference(expected: np.ndarray, result: np.ndarray, tolerance: float) -> str | None:
    got, wanted = (f"{x.dtype}{list(x.shape)}" for x in (result, expected))
    if got != wanted:
        return f"{got}, expected {wanted}"
    result, expected = result.astype(np.float64), expected.astype(np.float64)
    distance = float(np.max(np.abs(result - expected), initial=0))
    allowed = tolerance * float(np.max(np.abs(expected), initial=0))
    if distance <= allowed:
        return None
    return f"max|x - expected| is {distance:.2e}, allowed are {allowed:.2e}"
