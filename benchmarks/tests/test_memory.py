"""The peak of a call, by what it is known to take."""

import numpy as np
import pytest

from benchmarks import memory

SIZE = 64 * 2**20


def ones(count):
    return [np.ones(SIZE // 8) for _ in range(count)]


@pytest.mark.parametrize("measure", [memory.peak_beyond_now, memory._sampled])
def test_the_peak_counts_what_is_freed_before_the_call_ends(measure):
    kept = ones(1)  # what was there before does not count

    def call():
        ones(3)
        assert len(kept) == 1

    # Pages that are given back meanwhile, or come between two samples, are missing.
    assert 2.5 * SIZE < measure(call) < 3.5 * SIZE
