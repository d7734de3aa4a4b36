"""What must hold for any implementation, without a second one to compare with.

    from linattn_spec.invariants import Invariants

    class TestInvariants(Invariants):
        adapter = staticmethod(my_adapter)

`adapter` is an adapter of conformance.py. Needs hypothesis and a test runner, the extra "test". An
example is a kind of gates, a dtype, one of two shape families and a seed, tried with every rule, so
that a compiled framework compiles a few programs only.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from linattn_spec.arrays import Array, Arrays
from linattn_spec.conformance import Adapter
from linattn_spec.linear_attention import UPDATE_RULES as RULES
from linattn_spec.problems import FAMILIES, KERNEL, Inputs, Problem
from linattn_spec.tolerances import VALUE

# Two results are compared, and each may be off by what the table allows it.
TOLERANCE = {dtype: 2 * VALUE[dtype] for dtype in ("float64", "float32")}

Property = Callable[[Any, Problem], None]


def holds_for(*rules: str) -> Callable[[Property], Callable[..., None]]:
    """Runs the property on problems of each of `rules`, the same ones every time."""

    def decorate(test: Property) -> Callable[..., None]:
        @settings(
            max_examples=16,
            deadline=None,
            derandomize=True,
            database=None,
            phases=(Phase.generate,),  # an example is a seed, which does not shrink
            suppress_health_check=(HealthCheck.differing_executors,),  # many classes inherit these
        )
        @given(
            gates=st.sampled_from(("weak", "mixed")),
            vector=st.booleans(),
            dtype=st.sampled_from(("float64", "float32")),
            family=st.sampled_from(FAMILIES),
            seed=st.integers(0, 2**32 - 1),
        )
        def every_rule(self: "Invariants", **drawn: Any) -> None:
            for rule in rules:  # not drawn: a few examples would miss one
                test(self, Problem(rule, **drawn))

        every_rule.__name__, every_rule.__qualname__ = test.__name__, test.__qualname__
        return every_rule

    return decorate


class Invariants:
    """One test per invariant. A subclass sets `adapter`."""

    adapter: Adapter
    split_points: Sequence[int] | None = None
    """Where a sequence of T tokens is split: at these t < T, None for every one. A framework that
    compiles for every length may name a few."""

    @holds_for(*RULES, KERNEL)
    def test_a_sequence_split_in_two_with_the_state_handed_on_gives_the_whole(
        self, problem: Problem
    ) -> None:
        inputs = problem.inputs()
        whole = self.run(problem, inputs)
        for t in self.split_points or range(problem.family.T):
            if not 0 < t < problem.family.T:
                continue
            first = self.run(problem, tokens(inputs, slice(None, t)))
            rest = tokens(inputs, slice(t, None)) | {"initial_state": final_state(first)}
            second = self.run(problem, rest)
            joined = np.concatenate([first["output"], second["output"]], axis=1)
            assert_close(problem, f"split at {t}", joined, whole["output"])
            assert_states_close(problem, f"split at {t}", second, whole)

    @holds_for(*RULES)
    def test_results_are_linear_in_value_and_initial_state(self, problem: Problem) -> None:
        x, y = problem.inputs(), problem.inputs(seed=1)
        linear = ("value", "initial_state")
        both = x | {n: 2 * x[n] - 3 * y[n] for n in linear}
        of_x, of_y = self.run(problem, x), self.run(problem, x | {n: y[n] for n in linear})
        of_both = self.run(problem, both)
        for name, result in of_both.items():
            u, w = (results[name].astype(np.float64) for results in (of_x, of_y))
            size = max(np.abs(2 * u).max(), np.abs(3 * w).max())
            assert_close(problem, f"{name} of 2 x - 3 y", result, 2 * u - 3 * w, size)

    @holds_for(*RULES, KERNEL)
    def test_permuted_rows_give_permuted_results(self, problem: Problem) -> None:
        inputs = problem.inputs()
        order = np.roll(np.arange(problem.family.B), 1)
        whole = self.run(problem, inputs)
        permuted = self.run(problem, {n: each(x, lambda a: a[order]) for n, x in inputs.items()})
        for name, result in permuted.items():
            assert_close(problem, f"permuted {name}", result, whole[name][order])

    @holds_for(*RULES, KERNEL)
    def test_permuted_head_groups_give_permuted_results(self, problem: Problem) -> None:
        groups = problem.family.groups
        order = np.roll(np.arange(groups), 1)

        def permute(x: Array, axis: int) -> Array:
            heads = np.arange(x.shape[axis]).reshape(groups, -1)[order].ravel()
            return np.take(x, heads, axis=axis)

        def permute_input(name: str, x: Any) -> Any:
            axis = 1 if name == "initial_state" else 2
            return each(x, lambda a: permute(a, axis))

        inputs = problem.inputs()
        whole = self.run(problem, inputs)
        permuted = self.run(problem, {n: permute_input(n, x) for n, x in inputs.items()})
        for name, result in permuted.items():
            expected = permute(whole[name], 2 if name == "output" else 1)
            assert_close(problem, f"permuted {name}", result, expected)

    @holds_for(*RULES, KERNEL)
    def test_padded_tokens_count_for_nothing(self, problem: Problem) -> None:
        f, rng = problem.family, np.random.default_rng(problem.seed)
        inputs = problem.inputs()
        mask = np.zeros((f.B, f.T), bool)
        for row in mask:
            row[rng.permutation(f.T)[: f.real]] = True
        garbage = iter((np.nan, np.inf, 1e3, -1e3, np.nan))
        padded, compacted = {"mask": mask}, {}
        for name, x in inputs.items():
            if name == "initial_state":
                padded[name] = compacted[name] = x
                continue
            keep = mask.reshape(mask.shape + (1,) * (x.ndim - 2))
            padded[name] = np.where(keep, x, x.dtype.type(next(garbage)))
            compacted[name] = x[mask].reshape(f.B, f.real, *x.shape[2:])
        got, expected = self.run(problem, padded), self.run(problem, compacted)
        np.testing.assert_array_equal(got["output"][~mask], 0, err_msg=str(problem))
        real = got["output"][mask].reshape(expected["output"].shape)
        assert_close(problem, "real tokens", real, expected["output"])
        assert_states_close(problem, "padded", got, expected)

    @holds_for(*RULES, KERNEL)
    def test_packed_documents_equal_separate_ones(self, problem: Problem) -> None:
        f, inputs = problem.family, problem.inputs()
        ids = np.repeat(np.arange(len(f.segments)), f.segments)
        packed = self.run(problem, inputs | {"segment_ids": np.tile(ids, (f.B, 1))})
        outputs, start = [], 0
        for length in f.segments:
            document = tokens(inputs, slice(start, start + length))
            if start > 0:
                del document["initial_state"]
            separate = self.run(problem, document)
            outputs.append(separate["output"])
            start += length
        assert_close(problem, "packed", packed["output"], np.concatenate(outputs, axis=1))
        assert_states_close(problem, "packed", packed, separate)

    @holds_for(*RULES, KERNEL)
    def test_outputs_do_not_depend_on_later_tokens_by_a_single_bit(self, problem: Problem) -> None:
        f, rng = problem.family, np.random.default_rng(problem.seed)
        inputs, other = problem.inputs(), problem.inputs(seed=1)
        P = int(rng.integers(1, f.T))
        # Under the delta rules longer keys leave the domain, beta * |k|^2 <= 2.
        loud = ("query", "value") if "delta" in problem.rule else ("query", "key", "value")
        changed = {}
        for name, x in inputs.items():
            changed[name] = x
            if name != "initial_state":
                later = other[name][:, P:] * (1000 if name in loud else 1)
                changed[name] = np.concatenate([x[:, :P], later.astype(x.dtype)], axis=1)
        ones, one_segment = np.ones((f.B, f.T), bool), np.zeros((f.B, f.T), np.int32)
        before = self.run(problem, inputs | {"mask": ones, "segment_ids": one_segment})
        mask, ids = ones.copy(), one_segment.copy()
        mask[:, P:] = rng.uniform(size=(f.B, f.T - P)) < 0.5
        ids[:, P:] = rng.integers(0, 2, size=(f.B, f.T - P))
        after = self.run(problem, changed | {"mask": mask, "segment_ids": ids})
        np.testing.assert_array_equal(
            after["output"][:, :P], before["output"][:, :P], err_msg=f"{problem} changed from {P}"
        )

    @holds_for("delta", "gated_delta")
    def test_a_value_written_with_beta_one_and_a_unit_key_is_read_back(
        self, problem: Problem
    ) -> None:
        f, inputs = problem.family, problem.inputs()
        key = inputs["key"].astype(np.float64)
        key = (key / np.linalg.norm(key, axis=-1, keepdims=True)).astype(problem.dtype)
        query = np.repeat(key, f.Hq // f.Hk, axis=2)
        written = inputs | {"key": key, "query": query, "beta": np.ones_like(inputs["beta"])}
        output = self.run(problem, written, scale=1.0)["output"]
        value = np.repeat(inputs["value"], output.shape[2] // f.Hv, axis=2)
        assert_close(problem, "read", output, value)

    def run(self, problem: Problem, inputs: Inputs, **arguments: Any) -> Arrays:
        results = self.adapter(problem.operator, inputs, problem.arguments | arguments)
        return {name: np.asarray(x) for name, x in results.items()}


def each(x: Any, function: Callable[[Array], Array]) -> Any:
    """`function` of an array, or of every array of a tuple."""
    return tuple(map(function, x)) if isinstance(x, tuple) else function(x)


def tokens(inputs: Inputs, part: slice) -> Inputs:
    """The same call on some of the tokens."""
    return {n: x if n == "initial_state" else x[:, part] for n, x in inputs.items()}


def state_names(results: Arrays) -> list[str]:
    return sorted(name for name in results if name.startswith("final_state"))


def final_state(results: Arrays) -> Array | tuple[Array, ...]:
    """A final state as the next call's initial_state."""
    parts = tuple(results[name] for name in state_names(results))
    return parts[0] if "final_state" in results else parts


def assert_states_close(problem: Problem, what: str, got: Arrays, expected: Arrays) -> None:
    names = state_names(expected)
    assert names, f"{problem}: no final state among {sorted(expected)}"
    for name in names:
        assert_close(problem, f"{what}: {name}", got[name], expected[name])


def assert_close(
    problem: Problem, what: str, got: Array, expected: Array, size: float | None = None
) -> None:
    """Raises AssertionError unless max |got - expected| / size is within tolerance."""
    assert got.shape == expected.shape, f"{problem}: {what}: {got.shape} is not {expected.shape}"
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    size = np.abs(expected).max() if size is None else size
    error = np.abs(got - expected).max() / size
    tolerance = TOLERANCE[problem.dtype]
    assert error <= tolerance, f"{problem}: {what}: error {error:.2e}, tolerance {tolerance:.0e}"
