"""Text that is aligned: tables of words and numbers, and sentences that wrap."""

import textwrap
from collections.abc import Sequence

WIDTH = 100

Cell = str | int


def table(rows: Sequence[Sequence[Cell]], widest: int = WIDTH) -> list[str]:
    """Lines with words to the left and numbers to the right of their columns.

    A word longer than `widest` pushes the rest of its line, not of all lines.
    """
    widths = [min(widest, max(len(str(x)) for x in column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            str(x).rjust(width) if isinstance(x, int) else x.ljust(width)
            for x, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def wrapped(text: str, indent: int) -> list[str]:
    margin = " " * indent
    return textwrap.wrap(text, WIDTH, initial_indent=margin, subsequent_indent=margin)
