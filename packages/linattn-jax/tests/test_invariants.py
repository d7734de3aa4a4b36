"""What must hold without a second implementation to compare with, in both modes."""

from functools import partial

from adapter import adapter

from linattn_spec.invariants import Invariants


class TestParallel(Invariants):
    adapter = staticmethod(partial(adapter, execution_mode="parallel"))
    split_points = (3, 4)  # every length compiles anew; inside a chunk of 4, and at its end


class TestRecurrent(Invariants):
    adapter = staticmethod(partial(adapter, execution_mode="recurrent"))
    split_points = (1, 4)
