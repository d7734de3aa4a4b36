"""Deliberately wrong implementations: the fixtures are worth what they catch of these.

Each is a second, correct implementation (dissected.py, chunk_parallel.py, checked.py) with one
piece replaced, and an adapter (conformance.py). Unmutated it passes every case, so what kills a
mutant is its fault alone. `python -m linattn_spec.mutants` prints how many cases kill each.
"""

from linattn_spec.mutants import faults
from linattn_spec.mutants.checked import Checked
from linattn_spec.mutants.chunk_parallel import ChunkParallel
from linattn_spec.mutants.dissected import Dissected
from linattn_spec.mutants.table import (
    MUTANTS,
    killers,
    kills,
    length,
    markdown,
    matrix,
    rendered,
    transposed,
    tried,
)

__all__ = [
    "MUTANTS",
    "Checked",
    "ChunkParallel",
    "Dissected",
    "faults",
    "killers",
    "kills",
    "length",
    "markdown",
    "matrix",
    "rendered",
    "transposed",
    "tried",
]
