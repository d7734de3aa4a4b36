"""How a sequence is cut into chunks, and when it is not."""

import pytest

from linattn_core.chunks import LONGEST_CHUNK, chunk_count, chunk_length, is_recurrent


@pytest.mark.parametrize(
    ("chunk_size", "length"),
    [(1, 1), (2, 2), (3, 2), (4, 4), (63, 32), (64, 64), (65, 64), (255, 128), (256, 256)],
)
def test_a_chunk_is_the_largest_power_of_two_that_chunk_size_holds(chunk_size, length):
    assert chunk_length(chunk_size) == length


@pytest.mark.parametrize("chunk_size", [257, 512, 10**6, 2**70])
def test_a_chunk_has_a_longest_length(chunk_size):
    assert chunk_length(chunk_size) == LONGEST_CHUNK


@pytest.mark.parametrize("length", [1, 2, 64])
@pytest.mark.parametrize("tokens", [1, 2, 3, 63, 64, 65, 130])
def test_the_chunks_hold_all_tokens_and_none_is_all_padding(length, tokens):
    count = chunk_count(length, tokens)
    assert (count - 1) * length < tokens <= count * length


def test_no_tokens_make_one_chunk_of_padding():
    assert chunk_count(64, 0) == 1


@pytest.mark.parametrize(
    ("mode", "tokens", "recurrent"),
    [
        ("recurrent", 5, True),
        ("recurrent", 1, True),
        ("recurrent", None, True),
        ("parallel", 5, False),
        ("parallel", 1, False),
        ("parallel", None, False),
        ("auto", 1, True),
        ("auto", 2, False),
        ("auto", None, False),
    ],
)
def test_auto_is_recurrent_for_a_single_known_token_only(mode, tokens, recurrent):
    assert is_recurrent(mode, tokens) is recurrent


@pytest.mark.parametrize("mode", ["auto", "parallel", "recurrent"])
def test_without_tokens_nothing_loops(mode):
    assert is_recurrent(mode, 0) is False
