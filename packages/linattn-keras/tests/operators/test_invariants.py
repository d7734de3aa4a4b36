"""What holds for any implementation, of the one that is written in keras.ops."""

from functools import partial

from adapter import adapter

from linattn_spec.invariants import Invariants


class TestParallel(Invariants):
    adapter = staticmethod(partial(adapter, execution_mode="parallel", native=False))
    split_points = (1, 5)


class TestRecurrent(Invariants):
    adapter = staticmethod(partial(adapter, execution_mode="recurrent", native=False))
    split_points = (1, 5)
