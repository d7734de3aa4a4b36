"""Every package on every golden fixture: against the definition, and each against each other.

    python -m parity [--results DIRECTORY] [package ...]

`nox -s parity` installs what this needs and runs it.
"""
