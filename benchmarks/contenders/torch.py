"""linattn_torch, and PyTorch's own softmax attention."""

import torch

import linattn_torch
from benchmarks.contenders import Contender, builder, limits, operators
from benchmarks.frameworks import torch as FRAMEWORK

DTYPES = ("float32", "bfloat16")
# The loop over chunks is unrolled while compiling, which takes seconds for each chunk.
LONGEST_COMPILED = 512


def _softmax(problem):
    def computed(inputs):
        heads_first = (x.transpose(1, 2) for x in inputs.values())
        output = torch.nn.functional.scaled_dot_product_attention(*heads_first, is_causal=True)
        return {"output": output.transpose(1, 2)}

    return computed


def _operator(mode, compiled):
    call, step = operators.call(linattn_torch, mode), operators.step(linattn_torch)
    takes = operators.takes(mode, DTYPES)

    def takes_compiled(problem, which):
        return takes(problem, which) and problem.shape[1] <= LONGEST_COMPILED

    build = builder(FRAMEWORK, call, step, compiled=compiled)
    return Contender(takes_compiled if compiled else takes, build)


CONTENDERS = {f"torch-eager-{mode}": _operator(mode, False) for mode in operators.MODES}
# Token by token, it would unroll the loop over tokens.
CONTENDERS |= {f"torch-compile-{mode}": _operator(mode, True) for mode in ("auto", "parallel")}
CONTENDERS["torch-softmax"] = Contender(
    lambda problem, which: problem.rule == "softmax" and which != "step",
    builder(FRAMEWORK, _softmax),
)
CONTENDERS["torch-matmul"] = limits.matmul(FRAMEWORK, lambda x, y: x @ y.mT, torch.reshape)
CONTENDERS["torch-copy"] = limits.copy(FRAMEWORK, torch.clone)
CONTENDERS["torch-compile-copy"] = limits.compiled_step(FRAMEWORK, torch.neg, compiled=True)
