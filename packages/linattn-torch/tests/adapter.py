"""The conformance adapter: NumPy in, the torch operator called by name, NumPy out."""

import ml_dtypes
import numpy as np
import torch

import linattn_torch
from linattn_spec.conformance import flat, named

EXECUTION_MODES = ("parallel", "recurrent")


def adapter(
    operator,
    inputs,
    arguments,
    cotangents=None,
    *,
    execution_mode="auto",
    operators=linattn_torch,
):
    """Results by name; with cotangents also "gradient.<input>" of every float input."""
    tensors = {name: _each(_to_torch, x) for name, x in inputs.items()}
    leaves = {name: x for name, x in flat(tensors).items() if x.is_floating_point()}
    if cotangents is not None:
        for x in leaves.values():
            x.requires_grad_()
    if operator in ("linear_attention", "kernelized_attention"):
        arguments = {"execution_mode": execution_mode} | arguments
    results = named(operator, getattr(operators, operator)(**tensors, **arguments))
    arrays = {name: _to_numpy(x) for name, x in results.items()}
    if cotangents is not None:
        gradients = torch.autograd.grad(
            [results[name] for name in cotangents],
            list(leaves.values()),
            [torch.from_numpy(c).to(results[name].dtype) for name, c in cotangents.items()],
        )
        for name, gradient in zip(leaves, gradients, strict=True):
            arrays[f"gradient.{name}"] = _to_numpy(gradient)
    return arrays


def _each(function, x):
    return tuple(map(function, x)) if isinstance(x, tuple) else function(x)


def _to_torch(x):
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(x.copy())


def _to_numpy(x):
    x = x.detach()
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return x.numpy()
