"""The docstrings of the NumPy operators, and what is special to Keras."""

from functools import partial

from linattn_core.documentation import documented_as as document

NOTE = """On Keras: tensors of the active backend, NumPy arrays, variables, or the KerasTensors of a
    Functional model. `native`: None to compute in the backend's own package (linattn-torch,
    linattn-jax, linattn-tf) where it is installed, else in keras.ops; True for that package or
    an ImportError; False for keras.ops. The results agree up to rounding, and a saved model does
    not depend on it."""

documented_as = partial(document, note=NOTE)
