"""A run on small problems, with contenders whose faults are known."""

from dataclasses import replace

import pytest

from benchmarks.families import FAMILIES, Family
from benchmarks.operations import bytes_of_value
from benchmarks.plan import plan
from benchmarks.problems import Problem
from benchmarks.process import Failed, Process
from benchmarks.run import Run
from benchmarks.suites import Group
from benchmarks.targets import Side, Target

SHAPE = (2, 70, 3, 8)
PROBLEM = Problem("gated_delta", SHAPE)
PLANTED = Family("planted", "benchmarks.tests.planted", ("numpy",))
ABSENT = Family("absent", "benchmarks.tests.nowhere", ("numpy",))
NUMPY = FAMILIES[0]
WRONG = ["wrong-output", "wrong-state", "wrong-gradient", "missing", "nan"]
GROUP = Group(
    (("gated_delta", False),),
    (SHAPE,),
    passes=("gradient",),
    contenders=("numpy-parallel", "numpy-recurrent", "planted-*"),
    memory=True,
)
# Large enough for its results to be blocks that are given back.
LARGE = Problem("gated_delta", (1, 1024, 4, 64))
LARGE_GROUP = replace(
    GROUP, shapes=(LARGE.shape,), contenders=("numpy-parallel", "planted-hoarding")
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = Run([NUMPY, PLANTED, ABSENT], 1, tmp_path_factory.mktemp("logs"), {})
    try:
        for rounds in plan([GROUP, LARGE_GROUP], run.contenders):
            run.measure(rounds, 3, lambda what: None)
        yield run
    finally:
        run.close()


def measured(run, contender):
    return run.measurements[contender, PROBLEM, "gradient"]


@pytest.mark.parametrize("contender", ["numpy-parallel", "numpy-recurrent", "planted-sound"])
def test_a_sound_contender_is_timed_in_every_round(run, contender):
    m = measured(run, contender)
    assert m.reason is None
    assert len(m.seconds) == 3
    assert min(m.seconds) > 0
    assert m.first_call > 0
    assert 0 < max(m.errors.values()) < 1e-5
    assert "gradient.log_decay" in m.errors


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_contender_is_reported_and_not_timed(run, fault):
    m = measured(run, f"planted-{fault}")
    assert m.reason.startswith("wrong: ")
    assert not m.seconds


def test_a_contender_that_raises_is_reported_with_what_it_says(run):
    m = measured(run, "planted-raising")
    assert m.reason == "RuntimeError: no"
    assert not m.seconds


def test_a_contender_that_ends_its_process_is_reported_and_the_family_goes_on(run):
    assert "ended with 3" in measured(run, "planted-dying").reason
    assert measured(run, "planted-sound").seconds


def test_what_takes_too_long_is_stopped_and_can_be_asked_again(tmp_path):
    process = Process(PLANTED, threads=1, logs=tmp_path)
    try:
        request = {"contender": "planted-sound", "problem": PROBLEM.json(), "which": "forward"}
        with pytest.raises(Failed, match="longer than 0 s"):
            process.ask("takes", seconds=0, **request)
        assert process.ask("takes", seconds=60, **request) == {"takes": True}
    finally:
        process.stop()


def test_a_family_that_cannot_start_is_absent_with_its_reason(run):
    assert list(run.absent) == ["absent"]
    assert "nowhere" in run.absent["absent"]


def test_a_slow_contender_misses_a_target_that_a_sound_one_meets(run):
    found = list(run.measurements.values())

    def target(contender):
        over, under = (
            Side((name,), "gradient", (SHAPE,)) for name in (contender, "numpy-parallel")
        )
        return Target("no slower", over, under, at_most=5)

    slow, sound = target("planted-slow"), target("planted-sound")
    assert not slow.met(slow.ratio(found))
    assert sound.met(sound.ratio(found))


def test_a_peak_holds_the_results_at_least(run):
    m = run.measurements["numpy-parallel", LARGE, "gradient"]
    results = 4 * bytes_of_value(LARGE)  # the output; gradients of query, key and value
    assert results < m.peak < 20 * results


def test_a_peak_that_does_not_hold_the_results_is_none(run):
    m = run.measurements["planted-hoarding", LARGE, "gradient"]
    assert m.peak is None
    assert "do not hold the results" in m.peak_reason
