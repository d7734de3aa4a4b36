"""KerasHub's gated delta rule of Qwen3.5, on the backend of Keras."""

from keras_hub.src.models.qwen3_5.qwen3_5_gated_delta_net import _chunk_gated_delta_rule

from benchmarks.contenders import Contender, builder
from benchmarks.frameworks import keras as FRAMEWORK


def _takes(problem, which):
    known = problem.rule == "gated_delta" and not problem.per_key and problem.dtype == "float32"
    return known and which != "step"


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


def _named(how, **options):
    return {
        f"keras-hub-{how}": Contender(_takes, builder(FRAMEWORK, _call, **options), normalizes=True)
    }


if FRAMEWORK.BACKEND == "tensorflow":
    CONTENDERS = _named("tf-graph") | _named("tf-xla", xla=True)
else:
    CONTENDERS = _named(FRAMEWORK.BACKEND)
