"""Transformers' gated delta rule in PyTorch, in chunks and token by token.

Beside flash-linear-attention it would call kernels for GPUs instead.
"""

import importlib.util

from transformers.models.qwen3_next import modeling_qwen3_next as qwen

from benchmarks.contenders import Contender, builder
from benchmarks.frameworks import torch as FRAMEWORK

if importlib.util.find_spec("fla"):
    raise ImportError("fla-core is installed beside transformers, which would call its kernels")


def _takes(problem, which):
    return problem.rule == "gated_delta" and not problem.per_key and which != "step"


def _call(function):
    def computed(inputs):
        output, state = function(
            inputs["query"],
            inputs["key"],
            inputs["value"],
            g=inputs["log_decay"],
            beta=inputs["beta"],
            initial_state=None,
            output_final_state=True,
        )
        return {"output": output, "final_state": state}

    return lambda problem: computed


CONTENDERS = {
    "transformers-chunk": Contender(
        _takes, builder(FRAMEWORK, _call(qwen.torch_chunk_gated_delta_rule))
    ),
    "transformers-recurrent": Contender(
        _takes, builder(FRAMEWORK, _call(qwen.torch_recurrent_gated_delta_rule))
    ),
}
