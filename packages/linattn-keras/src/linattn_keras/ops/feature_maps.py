"""Feature maps of kernel attention, and the normalisation of keys."""

from typing import Any

import linattn_core
from linattn_keras.ops._documentation import documented_as
from linattn_keras.ops._operator import run


@documented_as(linattn_core.elu_plus_one)
def elu_plus_one(x: Any, native: bool | None = None) -> Any:
    return run("elu_plus_one", {"x": x}, {}, native)


@documented_as(linattn_core.relu)
def relu(x: Any, epsilon: float = 1e-6, native: bool | None = None) -> Any:
    return run("relu", {"x": x}, {"epsilon": epsilon}, native)


@documented_as(linattn_core.l2_normalize)
def l2_normalize(x: Any, epsilon: float = 1e-6, native: bool | None = None) -> Any:
    return run("l2_normalize", {"x": x}, {"epsilon": epsilon}, native)
