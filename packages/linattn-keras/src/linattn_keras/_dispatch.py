"""Which implementation computes: the one place where this is decided."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import keras

from linattn_keras import portable
from linattn_keras.config import is_native_enabled

# Keras backend -> the package that is native to it: an extra of this one, or linattn-core, which it
# needs in any case. All have the same operators, with the same arguments, results and errors;
# `portable` has them on every backend.
NATIVE = {
    "jax": "linattn_jax",
    "numpy": "linattn_core",
    "tensorflow": "linattn_tf",
    "torch": "linattn_torch",
}

# Those found so far, None for one that is not installed: a compiler need not follow an import.
_modules: dict[str, ModuleType | None] = {}


def implementation(native: Any, sizes_are_traced: bool = False) -> ModuleType:
    """The module whose operators compute.

    Args:
        native: None for the native package of the active backend where it is installed and
            `linattn_keras.config` allows it, else keras.ops; True for the native package;
            False for keras.ops.
        sizes_are_traced: whether the sizes of the tensors are tensors that a program records, as
            torch.jit.trace does for ONNX and OpenVINO. A native package would fix its number of
            chunks there; keras.ops does not.

    Raises:
        ImportError: native is True, and there is no such package or it is not installed.
        NotImplementedError: native is True, and sizes are traced.
        ValueError: native is something else.
    """
    check_native(native)
    if native is False or (native is None and (sizes_are_traced or not is_native_enabled())):
        return portable
    if sizes_are_traced:
        raise NotImplementedError(
            "native=True cannot be recorded by torch.jit.trace: export with native=None"
        )
    backend = keras.backend.backend()
    package = NATIVE.get(backend)
    if package is not None and (module := _find(package)) is not None:
        return module
    if native is None:
        return portable
    if package is None:
        raise ImportError(f"native=True: no package is native to the Keras backend '{backend}'")
    name = package.replace("_", "-")
    raise ImportError(f"native=True needs {name}, which is not installed")


def _find(package: str) -> ModuleType | None:
    if package not in _modules:
        _modules[package] = None if find_spec(package) is None else import_module(package)
    return _modules[package]


def check_native(native: Any) -> None:
    """Raises ValueError unless `native` is None, True or False."""
    if native is not None and not isinstance(native, bool):
        raise ValueError(f"native must be True, False or None, got {native!r}")
