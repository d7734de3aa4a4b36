"""Targets, on measurements made up for them."""

import pytest

from benchmarks import targets
from benchmarks.__main__ import main
from benchmarks.families import FAMILIES, Family
from benchmarks.measurement import Measurement
from benchmarks.operations import bytes_in_and_out, operations
from benchmarks.problems import Problem
from benchmarks.targets import Side, Target

SHAPE, LONGER = (1, 100, 2, 4), (1, 200, 2, 4)


def timed(contender, seconds, shape=SHAPE, **problem):
    return Measurement(contender, Problem("gated_delta", shape, **problem), "forward", [seconds])


def side(*contenders, shapes=(SHAPE,), **options):
    return Side(contenders, "forward", shapes, **options)


def test_the_best_of_a_side_counts():
    found = [timed("slow-a", 6.0), timed("slow-b", 9.0), timed("fast", 2.0)]
    assert Target("", side("slow-*"), side("fast"), at_least=3).ratio(found) == 3


def test_over_several_shapes_the_worst_counts():
    found = [timed("a", 1.0), timed("a", 3.0, LONGER)]
    both = side("a", shapes=(SHAPE, LONGER))
    assert Target("", both, both, at_most=1, quantity="seconds per token").ratio(found) == 1.5


def test_of_several_shapes_none_may_be_missing():
    both = side("a", shapes=(SHAPE, LONGER))
    assert Target("", both, both, at_most=2).ratio([timed("a", 1.0)]) is None


def test_limits_hold_in_their_direction():
    low, high = Target("", side("a"), at_least=2), Target("", side("a"), at_most=2)
    assert (low.met(3), low.met(1), high.met(3), high.met(1)) == (True, False, False, True)


def test_other_problems_do_not_count():
    target = Target("", side("a"), at_most=1)
    assert target.ratio([timed("a", 1.0, LONGER), timed("a", 1.0, per_key=True)]) is None
    assert target.ratio([timed("a", 1.0, dtype="bfloat16"), timed("b", 1.0)]) is None


def test_what_was_not_measured_is_not_judged():
    wrong = timed("a", 1.0)
    wrong.reason = "wrong"
    assert Target("", side("a"), at_most=1).ratio([wrong]) is None


def test_every_target_has_one_limit_and_a_name_of_its_own():
    for wanted in (targets.TARGETS, targets.REDUCED):
        assert all((t.at_least is None) != (t.at_most is None) for t in wanted)
        assert len({t.name for t in wanted}) == len(wanted)


def test_operations_and_bytes_of_a_small_problem():
    problem = Problem("linear", (1, 64, 1, 2))
    # 64 tokens: 2 * 64 * 2 operations within the chunk, 4 * 2 * 2 with the state.
    assert operations(problem, "forward") == 64 * (256 + 16)
    assert operations(problem, "gradient") == 3 * operations(problem, "forward")
    # Four arrays of 64 by 2, and the state, in four bytes each.
    assert bytes_in_and_out(problem, "forward") == 4 * 64 * 2 * 4 + 16
    assert bytes_in_and_out(problem, "gradient") == 2 * bytes_in_and_out(problem, "forward")


@pytest.mark.parametrize(("family", "status"), [("numpy", 0), ("benchmarks.tests.slowed", 1)])
def test_a_reduced_run_passes_unless_a_contender_has_become_slow(
    family, status, tmp_path, monkeypatch
):
    reduced = [t for t in targets.REDUCED if t.name.startswith("numpy, parallel")]
    monkeypatch.setattr(targets, "REDUCED", reduced)
    families = [Family("numpy", family, ("numpy",), FAMILIES[0].environment)]
    arguments = ["--reduced", "--repeats", "2", "--out", str(tmp_path), "--shape", "1,2048,4,32"]
    assert main(arguments, families) == status
