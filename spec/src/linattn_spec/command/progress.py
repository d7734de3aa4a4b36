"""How far a check is: one line redrawn on a terminal, ten lines elsewhere."""

import shutil
import sys
import time
from typing import TextIO

_SECONDS_BETWEEN_DRAWINGS = 0.1
_LINES = 10


class Progress:
    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._total = total
        self._stream = stream or sys.stderr
        self._redrawn = self._stream.isatty()
        self._width = 0
        self._next = 0.0

    def starts(self, case_id: str, done: int, failed: int) -> None:
        """To be called before each case."""
        if self._redrawn and time.monotonic() >= self._next:
            self._next = time.monotonic() + _SECONDS_BETWEEN_DRAWINGS
            self._draw(f"{done} of {self._total}, {failed} failed: {case_id}")

    def ended(self, done: int, failed: int) -> None:
        """To be called after each case."""
        if not self._redrawn and done * _LINES // self._total > (done - 1) * _LINES // self._total:
            print(f"{done} of {self._total} cases, {failed} failed", file=self._stream, flush=True)

    def clear(self) -> None:
        """Leaves an empty line, for what is printed next."""
        if self._width:
            self._draw("")
            self._stream.write("\r")
            self._stream.flush()

    def _draw(self, text: str) -> None:
        text = text[: shutil.get_terminal_size().columns - 1]
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)
