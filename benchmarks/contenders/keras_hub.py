"""KerasHub's gated delta rule of Qwen3.5, on the backend of Keras."""

from keras_hub.src.models.qwen3_5.qwen3_5_gated_delta_net import _chunk_gated_delta_rule

from benchmarks.contenders import Contender, builder
from benchmarks.frameworks import keras as FRAMEWORK

# Its loop over chunks is unrolled: XLA compiles a gradient of 2,048 tokens for many minutes.
LONGEST = 2048
LONGEST_COMPILED = 512


def _takes(longest):
    def takes(problem, which):
        known = problem.rule == "gated_delta" and not problem.per_key
        taken = known and problem.dtype == "float32" and which != "step"
        return taken and problem.shape[1] <= longest

    return takes


def _call(problem):
    def computed(inputs):
        output, state = _chunk_gated_delta_rule(
            inputs["query"],
            inputs["key"],
            inputs["value"],
            inputs["log_decay"],
            inputs["beta"],
            output_final_state=True,
        )
        return {"output": output, "final_state": state}

    return computed


def _named(how, longest, **options):
    build = builder(FRAMEWORK, _call, **options)
    return {f"keras-hub-{how}": Contender(_takes(longest), build, normalizes=True)}


if FRAMEWORK.BACKEND == "tensorflow":
    CONTENDERS = _named("tf-graph", LONGEST) | _named("tf-xla", LONGEST_COMPILED, xla=True)
else:
    CONTENDERS = _named(FRAMEWORK.BACKEND, LONGEST_COMPILED)
