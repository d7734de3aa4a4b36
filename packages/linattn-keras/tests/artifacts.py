"""Exports a model, loads what was written with the runtime of the format, and runs it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import keras
import numpy as np

Arrays = list[np.ndarray]
Runner = Callable[[Arrays], Arrays]


def exported(
    model: keras.Model, format: str, folder: Path, sizes: tuple[int, int] | None = None
) -> Runner:
    """What `model.export` wrote, as a function; the order of its results is the format's.

    `sizes` are the batch size and length of the one size of inputs that it is for, if not for all.
    """
    path, options = str(folder / f"model{_ENDINGS.get(format, '')}"), {}
    if format == "torch":
        options["dynamic_shapes"] = _open_sizes(model)
    if sizes is not None:
        options["input_signature"] = _fixed_sizes(model, *sizes)
    model.export(path, format=format, verbose=False, **options)
    return _LOADERS[format](path, [x.name for x in model.inputs])


def _open_sizes(model: keras.Model) -> list:
    from torch.export import Dim

    shapes = [
        {axis: Dim.DYNAMIC for axis, size in enumerate(x.shape) if size is None}
        for x in model.inputs
    ]
    return shapes if len(shapes) == 1 else [(shapes,)]


def _fixed_sizes(model: keras.Model, batch: int, tokens: int) -> list:
    specs = [
        keras.InputSpec(x.dtype, shape=(batch, *(tokens if s is None else s for s in x.shape[1:])))
        for x in model.inputs
    ]
    return [specs] if len(specs) > 1 else specs


def _saved_model(path: str, names: Sequence[str]) -> Runner:
    import tensorflow as tf

    artifact = tf.saved_model.load(path)
    return lambda inputs: [
        np.asarray(x) for x in keras.tree.flatten(artifact.serve(_alone(inputs)))
    ]


def _torch(path: str, names: Sequence[str]) -> Runner:
    import torch

    module = torch.export.load(path).module()

    def run(inputs: Arrays) -> Arrays:
        outputs = module(_alone([torch.from_numpy(x) for x in inputs]))
        return [x.detach().numpy() for x in keras.tree.flatten(outputs)]

    return run


def _onnx(path: str, names: Sequence[str]) -> Runner:
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    inputs = [x.name for x in session.get_inputs()]
    return lambda given: session.run(None, dict(zip(inputs, given, strict=True)))


def _openvino(path: str, names: Sequence[str]) -> Runner:
    import openvino

    # Or a processor that has bfloat16 would compute in it.
    compiled = openvino.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run(inputs: Arrays) -> Arrays:
        outputs = compiled(inputs)
        return [outputs[x] for x in compiled.outputs]

    return run


def _litert(path: str, names: Sequence[str]) -> Runner:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=path)
    (signature,) = interpreter.get_signature_list()
    runner = interpreter.get_signature_runner(signature)
    keys = sorted(runner.get_input_details())
    if set(names) <= set(keys):
        keys = names

    def run(inputs: Arrays) -> Arrays:
        outputs = runner(**dict(zip(keys, inputs, strict=True)))
        return [outputs[name] for name in sorted(outputs)]

    return run


def _alone(inputs: Sequence) -> object:
    return list(inputs) if len(inputs) > 1 else inputs[0]


_ENDINGS = {"torch": ".pt2", "onnx": ".onnx", "openvino": ".xml", "litert": ".tflite"}
_LOADERS = {
    "tf_saved_model": _saved_model,
    "torch": _torch,
    "onnx": _onnx,
    "openvino": _openvino,
    "litert": _litert,
}
