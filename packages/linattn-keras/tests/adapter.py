"""The conformance adapter: that of the backend's own package, with the operators of Keras in it."""

import functools
import importlib.util
import sys
from pathlib import Path

import keras

from linattn_keras import ops

_PACKAGES = {"jax": "linattn-jax", "tensorflow": "linattn-tf", "torch": "linattn-torch"}


def adapter(operator, inputs, arguments, cotangents=None, *, native, **options):
    """`options` are those of the backend's adapter: how to differentiate and to compile."""
    operators = Operators(native)
    return _backend().adapter(
        operator, inputs, arguments, cotangents, operators=operators, **options
    )


@functools.cache
class Operators:
    """`linattn_keras.ops`, native or portable; one object for each, as a key of caches."""

    def __init__(self, native):
        self._native = native

    def __getattr__(self, name):
        return functools.partial(getattr(ops, name), native=self._native)


@functools.cache
def _backend():
    package = _PACKAGES[keras.backend.backend()]
    path = Path(__file__).resolve().parents[2] / package / "tests" / "adapter.py"
    spec = importlib.util.spec_from_file_location(f"{package}-adapter", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
