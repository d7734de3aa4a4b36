"""A folder whose files are read only if they are in it and have the hash that its index says."""

import hashlib
import re
from pathlib import Path

from linattn_spec.safetensors_format import LARGEST, FixtureError

INDEX = "index.sha256"

# So plain that a path means the same on every system and cannot name a drive, a host or a parent.
_PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}(/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}){0,9}")
_LINE = re.compile(r"([0-9a-f]{64})  (\S+)")


class Folder:
    """The files of a fixtures folder, each read once it is inside and hashes as indexed.

    Raises:
        FixtureError: from every method, naming the file.
    """

    def __init__(self, directory: str | Path) -> None:
        self._root = Path(directory).resolve()
        self._hashes = hashes(self._bytes(INDEX))

    def read(self, path: str) -> bytes:
        """The contents of the file at `path`, relative to the folder, with slashes."""
        if not _PATH.fullmatch(path):
            raise FixtureError(f"{path!r:.80} leaves the fixtures folder or is no plain path")
        if path not in self._hashes:
            raise FixtureError(f"{path}: not in {INDEX}")
        data = self._bytes(path)
        digest = hashlib.sha256(data).hexdigest()
        if digest != self._hashes[path]:
            raise FixtureError(f"{path}: sha256 is {digest}, {INDEX} has {self._hashes[path]}")
        return data

    def _bytes(self, path: str) -> bytes:
        try:
            file = (self._root / path).resolve(strict=True)
            if not file.is_relative_to(self._root):
                raise FixtureError(f"{path}: leaves the fixtures folder by a link")
            # To open a pipe would wait for a writer; a device may never end.
            if not file.is_file():
                raise FixtureError(f"{path}: is not a regular file")
            with file.open("rb") as stream:
                data = stream.read(LARGEST + 1)
        except OSError as error:
            raise FixtureError(f"{path}: {error.strerror} in {self._root}") from None
        except RuntimeError:  # what resolve() raised for a circle of links before Python 3.13
            raise FixtureError(f"{path}: is a link to itself in {self._root}") from None
        if len(data) > LARGEST:
            raise FixtureError(f"{path}: is larger than {LARGEST:,} bytes")
        return data


def hashes(index: bytes) -> dict[str, str]:
    """The SHA-256 of every file in an index as the command sha256sum writes it, by path."""
    found: dict[str, str] = {}
    seen = set()
    try:
        lines = index.decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise FixtureError(f"{INDEX}: {error}") from None
    for number, line in enumerate(lines if index else [], 1):
        match = _LINE.fullmatch(line)
        if match is None or not _PATH.fullmatch(match[2]):
            raise FixtureError(f"{INDEX}: line {number} is no hash and plain path: {line!r:.80}")
        # One file where upper and lower case are the same.
        if match[2].casefold() in seen:
            raise FixtureError(f"{INDEX}: line {number} names {match[2]} again")
        seen.add(match[2].casefold())
        found[match[2]] = match[1]
    return found
