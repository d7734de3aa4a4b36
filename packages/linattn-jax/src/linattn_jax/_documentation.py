"""The docstrings of the NumPy operators, and what is special to JAX."""

from functools import partial

from linattn_core.documentation import documented_as as document

NOTE = """On JAX: JAX or NumPy arrays. Differentiable to any order, forwards and backwards, in every
    float argument, under jit, vmap, checkpoint, sharded meshes and shard_map, and jax.export
    with symbolic B and T. Takes strict dtype and rank promotion; x64 may be on or off."""

documented_as = partial(document, note=NOTE)
