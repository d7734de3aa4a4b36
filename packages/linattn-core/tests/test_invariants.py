"""What must hold without a second implementation to compare with, in both modes."""

from functools import partial

from adapter import adapter

from linattn_spec.invariants import Invariants


class TestParallel(Invariants):
    adapter = staticmethod(partial(adapter, execution_mode="parallel"))


class TestRecurrent(Invariants):
    adapter = staticmethod(partial(adapter, execution_mode="recurrent"))
