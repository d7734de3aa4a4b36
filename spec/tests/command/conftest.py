"""The command, called as a function."""

import pytest

from linattn_spec.__main__ import main


@pytest.fixture
def command(capsys):
    """What the command prints, what it says on stderr, and its exit code."""

    def run(*arguments):
        try:
            code = main(arguments)
        except SystemExit as exit:
            code = exit.code
        return *capsys.readouterr(), code

    return run
