"""The package as the conformance runner sees it: arrays in, arrays out."""

import linattn_core
from linattn_spec.conformance import flat, named

WITH_MODE = ("linear_attention", "kernelized_attention")


def adapter(operator, inputs, arguments, cotangents=None, *, execution_mode="auto"):
    """Calls `operator`, given cotangents its gradient too; an adapter of linattn_spec."""
    if operator in WITH_MODE:
        arguments = {"execution_mode": execution_mode} | arguments
    results = named(operator, getattr(linattn_core, operator)(**inputs, **arguments))
    if cotangents is None:
        return results
    vjp = getattr(linattn_core, f"{operator}_vjp")
    gradients = vjp(**inputs, **arguments, **_cotangent_arguments(cotangents))
    return results | flat({f"gradient.{n}": x for n, x in gradients.items() if n in inputs})


def _cotangent_arguments(cotangents):
    """ "final_state.0", "final_state.1" as one tuple final_state_cotangent."""
    arguments = {}
    for name in sorted(cotangents):
        result, dot, _ = name.partition(".")
        argument = f"{result}_cotangent"
        if dot:
            arguments[argument] = (*arguments.get(argument, ()), cotangents[name])
        else:
            arguments[argument] = cotangents[name]
    return arguments
