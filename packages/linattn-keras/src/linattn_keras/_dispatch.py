"""Which implementation computes: the one place where this is decided."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import keras

from linattn_keras import portable
from linattn_keras.config import is_native_enabled

# Keras backend -> the package that is native to it, an extra of this one. All have the same
# operators, with the same arguments, results and errors; `portable` has them on every backend.
NATIVE = {
    "jax": "linattn_jax",
    "numpy": "linattn_core",
    "tensorflow": "linattn_tf",
    "torch": "linattn_torch",
}


def implementation(native: Any) -> ModuleType:
    """The module whose operators compute.

    Args:
        native: None for the native package of the active backend where it is installed and
            `linattn_keras.config` allows it, else keras.ops; True for the native package;
            False for keras.ops.

    Raises:
        ImportError: native is True, and there is no such package or it is not installed.
        ValueError: native is something else.
    """
    check_native(native)
    if native is False or (native is None and not is_native_enabled()):
        return portable
    backend = keras.backend.backend()
    package = NATIVE.get(backend)
    if package is not None and find_spec(package) is not None:
        return import_module(package)
    if native is None:
        return portable
    if package is None:
        raise ImportError(f"native=True: no package is native to the Keras backend '{backend}'")
    name = package.replace("_", "-")
    raise ImportError(f"native=True needs {name}, which is not installed")


def check_native(native: Any) -> None:
    """Raises ValueError unless `native` is None, True or False."""
    if native is not None and not isinstance(native, bool):
        raise ValueError(f"native must be True, False or None, got {native!r}")
