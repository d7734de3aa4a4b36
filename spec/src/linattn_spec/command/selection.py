"""Which cases are meant: the filters that the commands and the pytest plugin share."""

import argparse
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache

from linattn_spec.command import UsageError
from linattn_spec.command.flags import flags
from linattn_spec.fixtures import Case, FixtureError, load_cases

ALL = "linattn-1"


@dataclass(frozen=True)
class Filters:
    """Cases of `version` that have one of each kind of value named, and none of `without`."""

    version: str = ALL
    operators: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()


def add_filters(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("filters", "Each but --version may be given more than once.")
    group.add_argument("--version", default=ALL, help="a list of cases, as onnx-27; default: all")
    for option, what in (
        ("operator", "cases of this operator"),
        ("dtype", "cases in this dtype"),
        ("flag", "cases that catch this kind of fault"),
        ("without", "no cases with this flag"),
    ):
        group.add_argument(
            f"--{option}", action="append", default=[], metavar=option[0].upper(), help=what
        )


def filters_of(options: argparse.Namespace) -> Filters:
    return Filters(
        version=options.version,
        operators=tuple(options.operator),
        dtypes=tuple(options.dtype),
        flags=tuple(options.flag),
        without=tuple(options.without),
        ids=tuple(getattr(options, "case", ())),
    )


@cache
def cases_of(version: str) -> tuple[Case, ...]:
    """The cases of the version, read once however many tests ask for them."""
    try:
        return load_cases(version)
    except FixtureError as error:
        raise UsageError(str(error)) from None


def select(filters: Filters) -> tuple[Case, ...]:
    """The cases that pass the filters, in the order of the manifest.

    Raises:
        UsageError: a value that no case of the version has, or no case passes them all.
    """
    selected = cases = cases_of(filters.version)
    kinds: tuple[tuple[str, tuple[str, ...], Callable[[Case], Collection[str]]], ...] = (
        ("case", filters.ids, lambda case: (case.id,)),
        ("operator", filters.operators, lambda case: (case.operator,)),
        ("dtype", filters.dtypes, lambda case: (case.dtype,)),
        ("flag", filters.flags, lambda case: case.flags),
    )
    for kind, wanted, values in kinds:
        _known(kind, wanted, {x for case in cases for x in values(case)}, filters.version)
        if wanted:
            selected = tuple(case for case in selected if not set(wanted).isdisjoint(values(case)))
    # One that no case of this version has leaves out nothing, but there has to be such a flag.
    _known("flag", filters.without, flags(), ALL)
    selected = tuple(case for case in selected if set(filters.without).isdisjoint(case.flags))
    if not selected:
        raise UsageError(f"no case of {filters.version} passes all filters")
    return selected


def find(case_id: str) -> Case:
    """The case of that id."""
    (case,) = select(Filters(ids=(case_id,)))
    return case


def forward_only(case: Case) -> Case:
    """The case without its gradients."""
    return replace(case, cotangents={}, gradients={})


def closest(word: str, known: Iterable[str]) -> str:
    """The known words most like `word`, else, if they are few, all of them; as a clause."""
    names = sorted(known)
    contain = sorted((name for name in names if word in name), key=lambda name: name.find(word))
    close = get_close_matches(word, names, n=3) or contain[:3]
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; there are {', '.join(names)}" if len(names) <= 10 else ""


def _known(kind: str, wanted: Iterable[str], known: Collection[str], version: str) -> None:
    for word in wanted:
        if word not in known:
            raise UsageError(f"no {kind} {word!r} in {version}{closest(word, known)}")
