"""The docstrings of the NumPy operators, and what is special to PyTorch."""

from functools import partial

from linattn_core.documentation import documented_as as document

NOTE = """On PyTorch: tensors of any device and strides. Differentiable to any order in every float
    argument, under torch.func, torch.compile(fullgraph=True), and torch.export with open B and
    T. Autocast does not reach inside."""

documented_as = partial(document, note=NOTE)
