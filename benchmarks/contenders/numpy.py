"""linattn_core, on NumPy arrays."""

import numpy as np

import linattn_core
from benchmarks.contenders import Contender, builder, limits, operators
from benchmarks.frameworks import numpy as FRAMEWORK


def _build(mode):
    def build(problem, which, inputs, cotangents):
        options = {"vjp": _vjp(problem, mode)} if which == "gradient" else {}
        call, step = operators.call(linattn_core, mode), operators.step(linattn_core)
        return builder(FRAMEWORK, call, step, **options)(problem, which, inputs, cotangents)

    return build


def _vjp(problem, mode):
    if problem.rule.startswith("kernel"):
        function, arguments = (
            linattn_core.kernelized_attention_vjp,
            {"causal": "causal" in problem.rule},
        )
    else:
        function, arguments = linattn_core.linear_attention_vjp, {"update_rule": problem.rule}

    def vjp(inputs, cotangents):
        incoming = {f"{name}_cotangent": x for name, x in cotangents.items()}
        return function(**inputs, **incoming, **arguments, execution_mode=mode)

    return vjp


CONTENDERS = {
    f"numpy-{mode}": Contender(operators.takes(mode, ("float32",)), _build(mode))
    for mode in operators.MODES
}
CONTENDERS["numpy-matmul"] = limits.matmul(FRAMEWORK, lambda x, y: x @ y.mT, np.reshape)
CONTENDERS["numpy-copy"] = limits.copy(FRAMEWORK, np.copy)
