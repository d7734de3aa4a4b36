"""The docstrings of the NumPy operators, and what is special to the portable path."""

from functools import partial

from linattn_core.documentation import documented_as as document

NOTE = """On Keras, portably: the tensors of the backend, through keras.ops alone. Products are as
    precise as the backend's own setting says, which on GPUs may be TensorFloat-32.
    Differentiable in every float argument. "linear" and kernel attention in chunks run without
    a loop, with open B and T, compiled and exported, everywhere.
    The other rules, and the mode "recurrent", go through keras.ops.scan: XLA cannot compile its
    gradient on TensorFlow, and PyTorch cannot export it with an open T. The native packages do."""

documented_as = partial(document, note=NOTE)
