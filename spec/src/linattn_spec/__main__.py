"""python -m linattn_spec lists the cases, shows one, and checks an implementation against them."""

import argparse
import io
import os
import sys
from collections.abc import Sequence

from linattn_spec.command import UsageError, check, listing, show

_COMMANDS = {
    "list": (listing, "one line per case; --flags: what kinds of fault they catch"),
    "show": (show, "everything of one case"),
    "check": (check, "an implementation against the cases"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exits 0, or for check: 1 for a failure, 2 for a wrong call, 130 if interrupted."""
    parser = argparse.ArgumentParser(prog="python -m linattn_spec", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    for name, (command, what) in _COMMANDS.items():
        subparser = commands.add_parser(name, help=what, description=f"{name}: {what}")
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    options = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        # What an adapter raises may be text that the terminal has no bytes for.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except UsageError as error:
        print(f"python -m linattn_spec: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has closed, as `head` does; nothing more can be said, not at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
