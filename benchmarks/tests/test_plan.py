"""Who takes turns with whom."""

from benchmarks.plan import plan
from benchmarks.suites import REDUCED, SUITES, Group

GATED = (("gated_delta", False),)
A, B = (1, 8, 2, 4), (1, 16, 2, 4)


def entries(rounds):
    return [[(name, str(problem), which) for name, problem, which in x.entries] for x in rounds]


def test_one_shape_takes_turns_whatever_the_rule_and_each_entry_once():
    groups = [Group((*GATED, ("linear", False)), (A,)), Group(GATED, (A,))]
    forward, gradient = entries(plan(groups, ["a", "b"]))
    assert len(forward) == len(set(forward)) == len(gradient) == 4


def test_shapes_take_turns_only_in_named_rounds():
    assert len(plan([Group(GATED, (A, B), passes=("forward",))], ["a"])) == 2
    assert len(plan([Group(GATED, (A, B), passes=("forward",), rounds="both")], ["a"])) == 1


def test_patterns_and_shapes_restrict():
    groups = [Group(GATED, (A, B), passes=("forward",), contenders=("x-*",))]
    (only,) = entries(plan(groups, ["x-a", "x-b", "y-a"], ["*-a"], [B]))
    assert only == [("x-a", "gated_delta 1×16×2×4 float32", "forward")]
    assert not plan(groups, ["y-a"])


def test_only_the_gradient_has_its_peak_measured():
    forward, gradient = plan([Group(GATED, (A,), memory=True)], ["a"])
    assert not forward.memory
    assert gradient.memory == gradient.entries


def test_every_suite_has_work_for_the_packages():
    ours = [f"{how}-parallel" for how in ("numpy", "torch-eager", "jax-jit", "tf-xla")]
    limits = ["numpy-auto", "numpy-copy", "numpy-matmul"]
    for groups in (*SUITES.values(), REDUCED):
        assert plan(groups, ours + limits)


def test_nothing_is_measured_in_two_sets_of_rounds():
    groups = [group for name in SUITES for group in SUITES[name]]
    names = [f"{how}-{form}" for how in ("numpy", "jax-jit") for form in ("parallel", "recurrent")]
    every = [
        entry for rounds in plan(groups, [*names, "torch-softmax"]) for entry in rounds.entries
    ]
    assert len(every) == len(set(every))
