"""The docstrings of the NumPy operators, and what is special to PyTorch."""

from functools import partial

from linattn_core.documentation import documented_as as document

NOTE = """On PyTorch: tensors of any device and strides. Differentiable in every float argument, to
    any order eagerly and under torch.func, once under torch.compile(fullgraph=True);
    torch.export takes open sizes, for forward passes. Autocast does not reach inside."""

documented_as = partial(document, note=NOTE)
