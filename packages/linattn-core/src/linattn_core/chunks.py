"""How a sequence is cut into chunks."""

UPDATE_RULES = ("linear", "gated", "delta", "gated_delta")
EXECUTION_MODES = ("auto", "parallel", "recurrent")

# A token costs as many products as its chunk has tokens: beyond this, longer chunks only waste.
LONGEST_CHUNK = 256


def chunk_length(chunk_size: int) -> int:
    """`chunk_size` rounded down to a power of two, and to at most LONGEST_CHUNK.

    The halving form of the decay products needs a power of two. The length does not depend on
    T, so that a padded sequence is computed exactly as the same sequence without its padding.
    """
    return 1 << (int(min(chunk_size, LONGEST_CHUNK)).bit_length() - 1)


def chunk_count(length: int, tokens: int) -> int:
    """The number of chunks of `length` that hold `tokens`; one, all padding, for no tokens."""
    return max(1, -(-tokens // length))


def is_recurrent(execution_mode: str, tokens: int | None) -> bool:
    """Whether to run token by token: "auto" does for a single token; None is an unknown T.

    Without tokens there is nothing to loop over, and the chunk form returns what is asked.
    """
    if tokens == 0:
        return False
    return execution_mode == "recurrent" or (execution_mode == "auto" and tokens == 1)
