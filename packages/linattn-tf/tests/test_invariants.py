"""What holds for any implementation, in both forms."""

from functools import partial

from adapter import adapter

from linattn_spec.invariants import Invariants


class TestParallel(Invariants):
    adapter = staticmethod(partial(adapter, execution_mode="parallel"))
    split_points = (1, 5)


class TestRecurrent(Invariants):
    adapter = staticmethod(partial(adapter, execution_mode="recurrent"))
    split_points = (1, 5)
