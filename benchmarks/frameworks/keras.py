"""Keras, through the framework that is its backend."""

import importlib

import keras

BACKEND = keras.backend.backend()
_native = importlib.import_module(f"benchmarks.frameworks.{BACKEND}")

use, forward, gradient, arrays = _native.use, _native.forward, _native.gradient, _native.arrays
