"""Where one curve falls below another, on measurements made up for them."""

import pytest

from benchmarks.crossover import crossovers
from benchmarks.measurement import Measurement
from benchmarks.problems import Problem


def measured(softmax, linear):
    """What two contenders take at T = 64, 256, ..., in seconds."""
    for contender, rule, times in (
        ("torch-softmax", "softmax", softmax),
        ("torch-eager-parallel", "linear", linear),
    ):
        for n, seconds in enumerate(times):
            problem = Problem(rule, (1, 64 * 4**n, 8, 64))
            yield Measurement(contender, problem, "forward", [seconds])


@pytest.mark.parametrize(
    ("softmax", "linear", "answer"),
    [
        ((2.0, 2.0), (1.0, 1.0), "64 or less"),
        ((1.0, 1.0), (2.0, 2.0), "more than 256"),
        # A quarter and four times: the middle of 64 and 256, counted in factors.
        ((1.0, 16.0), (4.0, 4.0), "128"),
        # Faster, slower, faster: only the last time counts.
        ((2.0, 1.0, 4.0), (1.0, 2.0, 2.0), "512"),
    ],
)
def test_the_last_crossing_counts(softmax, linear, answer):
    (row,) = crossovers(list(measured(softmax, linear)))
    assert row == ("torch", "torch-softmax", "linear", "forward", answer)


def test_what_was_not_measured_has_no_row():
    assert not list(crossovers(list(measured((1.0,), ()))))
