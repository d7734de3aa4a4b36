"""What `python -m linattn_spec` does: list the cases, show one, check an implementation."""


class UsageError(Exception):
    """What the caller has to put right; its text is all that is said about it."""
