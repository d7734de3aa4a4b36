"""Deliberately wrong implementations: the fixtures are worth what they catch of these.

Each is a second, correct implementation (dissected.py, chunk_parallel.py) with one piece replaced,
and an adapter (conformance.py). Unmutated it passes every value case, so what kills a mutant is its
fault alone. `python -m linattn_spec.mutants` prints how many cases kill each.
"""

from linattn_spec.mutants.chunk_parallel import ChunkParallel
from linattn_spec.mutants.dissected import Dissected
from linattn_spec.mutants.faults import chunks, gradients, heads, kernels, padding, recurrence
from linattn_spec.mutants.table import MUTANTS, killers, kills, markdown

__all__ = [
    "MUTANTS",
    "ChunkParallel",
    "Dissected",
    "chunks",
    "gradients",
    "heads",
    "kernels",
    "killers",
    "kills",
    "markdown",
    "padding",
    "recurrence",
]
