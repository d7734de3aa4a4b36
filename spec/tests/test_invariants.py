"""Correct implementations keep every invariant, and every invariant is broken by some mutant."""

import pytest

from linattn_spec.generate.oracle import oracle
from linattn_spec.invariants import Invariants
from linattn_spec.mutants import MUTANTS, ChunkParallel

BREAKERS = {
    "test_a_sequence_split_in_two_with_the_state_handed_on_gives_the_whole": (
        "past-ignored",
        "past-honoured-for-one-token",
        "normalizer-state-not-carried",
    ),
    "test_results_are_linear_in_value_and_initial_state": ("state-in-float16",),
    "test_permuted_rows_give_permuted_results": ("gates-of-the-first-row",),
    "test_permuted_head_groups_give_permuted_results": ("tiled-query-heads",),
    "test_padded_tokens_count_for_nothing": (
        "padding-decays",
        "mask-by-multiplication",
        "mask-before-feature-map",
        "masked-keys-in-denominator",
    ),
    "test_packed_documents_equal_separate_ones": (
        "boundary-leak",
        "first-segment-starts-from-zeros",
    ),
    "test_outputs_do_not_depend_on_later_tokens_by_a_single_bit": ("future-token-included",),
    "test_a_value_written_with_beta_one_and_a_unit_key_is_read_back": (
        "error-before-decay",
        "read-before-write",
    ),
}


class TestDefinitions(Invariants):
    adapter = staticmethod(oracle)


class TestChunks(Invariants):
    adapter = ChunkParallel()
    split_points = (1, 4, 6)


def test_every_invariant_names_a_mutant_that_breaks_it():
    assert set(BREAKERS) == {name for name in dir(Invariants) if name.startswith("test_")}


@pytest.mark.parametrize(
    ("invariant", "mutant"), [(name, m) for name, mutants in BREAKERS.items() for m in mutants]
)
def test_the_invariant_fails_for_the_mutant(invariant, mutant):
    class Broken(Invariants):
        adapter = staticmethod(MUTANTS[mutant][1])

    with pytest.raises(AssertionError):
        getattr(Broken(), invariant)()
