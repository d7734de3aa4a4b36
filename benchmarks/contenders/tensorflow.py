"""linattn_tf, in a tf.function, without and with XLA."""

import tensorflow as tf

import linattn_tf
from benchmarks.contenders import Contender, builder, limits, operators
from benchmarks.frameworks import tensorflow as FRAMEWORK


def _matmul(problem):
    def computed(inputs):
        return {
            "output": tf.matmul(inputs["query"][0, :, 0], inputs["key"][0, :, 0], transpose_b=True)
        }

    return computed


CONTENDERS = {
    f"tf-{how}-{mode}": Contender(
        operators.takes(mode, ("float32",)),
        builder(
            FRAMEWORK,
            operators.call(linattn_tf, mode),
            operators.step(linattn_tf),
            xla=how == "xla",
        ),
    )
    for how in ("graph", "xla")
    for mode in operators.MODES
}
CONTENDERS["tf-matmul"] = limits.matmul(FRAMEWORK)._replace(build=builder(FRAMEWORK, _matmul))
