"""Prints the outputs of a model and its weights after one step, on 1 or on 2 x 2 devices."""

import json
import sys

import jax
import keras
import numpy as np

from linattn_keras import LinearAttention

HEADS, WIDTH = 4, 6


def layout(mesh):
    """The heads of every projection over one axis of the mesh."""
    heads = keras.distribution.LayoutMap(mesh)
    heads[r".*/(query|key|value)/kernel"] = (None, "model", None)
    heads[r".*/(query|key|value)/bias"] = ("model", None)
    heads[r".*/attention_output/kernel"] = ("model", None, None)
    return heads


def main(devices, native):
    if devices > 1:
        mesh = keras.distribution.DeviceMesh(
            (2, 2), ("batch", "model"), keras.distribution.list_devices()
        )
        keras.distribution.set_distribution(
            keras.distribution.ModelParallel(layout_map=layout(mesh), batch_dim_name="batch")
        )
    keras.utils.set_random_seed(0)
    inputs = keras.Input((None, WIDTH))
    layer = LinearAttention(HEADS, 8, causal=True, native=native)
    model = keras.Model(inputs, layer(keras.layers.Masking()(inputs)))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 70, WIDTH)).astype("float32")
    x[1, 50:] = 0
    y = rng.normal(size=x.shape).astype("float32")
    model.compile(keras.optimizers.SGD(0.1), "mse")
    outputs = model.predict(x, verbose=0)
    loss = model.train_on_batch(x, y)
    kernel = next(w.value for w in layer.weights if w.path.endswith("query/kernel"))
    report = {
        "devices": jax.device_count(),
        "query kernel of one device": kernel.addressable_shards[0].data.shape,
        "outputs": outputs.ravel().tolist(),
        "loss": [float(loss)],
    }
    for weight in model.weights:
        report[weight.path] = np.asarray(weight.value).ravel().tolist()
    print(json.dumps(report))


main(int(sys.argv[1]), sys.argv[2] == "True")
