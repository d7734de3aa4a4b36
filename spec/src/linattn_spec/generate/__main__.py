"""python -m linattn_spec.generate writes the fixtures; with --check it compares them instead.

It refuses to make another call of an id that a release has had.
"""

import argparse
import sys
from pathlib import Path

from linattn_spec.fixtures import fixtures_directory
from linattn_spec.folder import INDEX, hashes
from linattn_spec.generate import released
from linattn_spec.generate.catalogue import WITHDRAWN, cases
from linattn_spec.generate.check import problems
from linattn_spec.generate.write import BY_HAND, Files, files


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m linattn_spec.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    parser.add_argument("--directory", type=Path, help="default: the fixtures of this checkout")
    parser.add_argument("--release", metavar="VERSION", help="note the cases new in this release")
    options = parser.parse_args(arguments)
    directory = options.directory or fixtures_directory()
    everything = cases()
    broken = released.broken_promises(everything, released.read(), WITHDRAWN)
    if broken:
        print("\n".join(broken))
        return 1
    generated = files(everything)
    if options.check:
        found = problems(directory, generated)
        print("\n".join(found) or f"{len(generated)} files are as generated")
        return 1 if found else 0
    foreign = not_ours(directory)
    if foreign:
        print(f"{directory} holds {foreign[0]}, which is no fixture: nothing is written")
        return 1
    write(directory, generated)
    if options.release:
        print(f"{released.release(everything, options.release)} cases are new in {options.release}")
    print(f"{len(generated)} files, {sum(map(len, generated.values())):,} bytes in {directory}")
    return 0


def not_ours(directory: Path) -> list[str]:
    """The files of a folder that its index does not list, and that would be deleted unseen."""
    index = directory / INDEX
    listed = hashes(index.read_bytes()) if index.is_file() else {}
    present = (path.relative_to(directory).as_posix() for path in files_in(directory))
    return sorted(set(present) - {INDEX, *BY_HAND, *listed})


def files_in(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def write(directory: Path, generated: Files) -> None:
    """Makes `generated` the contents of the folder, what is written by hand apart."""
    for file in files_in(directory):
        name = file.relative_to(directory).as_posix()
        if name not in generated and name not in BY_HAND:
            file.unlink()
    for path, data in generated.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(data)


if __name__ == "__main__":
    sys.exit(main())
