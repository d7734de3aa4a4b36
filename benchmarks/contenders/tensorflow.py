"""linattn_tf, in a tf.function, without and with XLA."""

import tensorflow as tf

import linattn_tf
from benchmarks.contenders import Contender, builder, limits, operators
from benchmarks.frameworks import tensorflow as FRAMEWORK


def _multiply(x, y):
    return tf.matmul(x, y, transpose_b=True)


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
CONTENDERS["tf-matmul"] = limits.matmul(FRAMEWORK, _multiply, tf.reshape)
CONTENDERS |= {
    f"tf-{how}-copy": limits.compiled_step(FRAMEWORK, tf.negative, xla=how == "xla")
    for how in ("graph", "xla")
}
