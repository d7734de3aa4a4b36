"""The JSON files of a fixtures folder, checked by hand where manifest.schema.json needs a library.

What is accepted follows the schema. Refused besides is what a schema cannot say: two cases of one
id, a tensor too large for this reader, a refused call with results.
"""

import math
import re
from collections.abc import Callable, Collection
from typing import Any

from linattn_spec.case_tensors import INPUTS, returns, takes
from linattn_spec.safetensors_format import DTYPES, FixtureError, is_naturals, is_shape
from linattn_spec.strict_json import parse
from linattn_spec.tolerances import VALUE

# As long as every file system has room for, with a suffix.
_ID = re.compile(r"(?=.{1,80}\Z)[a-z0-9]+(-[a-z0-9]+)*")
_ARGUMENT = re.compile(r"[a-z_]+")
_FILE = re.compile(r"cases/[a-z0-9-]{1,80}\.safetensors")
_SHA256 = re.compile(r"[0-9a-f]{64}")
# A literal text, between "^" and the end or a colon: portable, and found in linear time.
_PATTERN = re.compile(r"\^?([^\\^$.|?*+()\[\]{}]|\\\W)+(\(:\|\$\)|\$)?")

# Inputs that have no gradient, and no definition by halves.
_NO_FLOATS = ("mask", "segment_ids")
# With (m + offset) * 2**exponent, 0 <= m <= 255, in this range, float16 and bfloat16 are exact.
_OFFSETS = range(-255, 1)
_EXPONENTS = range(-24, 9)
# What a small manifest may ask a reader to compute.
_MOST_GENERATED = 256 * 2**20


def entries(data: bytes, flags: Collection[str]) -> list[dict[str, Any]]:
    """The cases of manifest.json, in its order; `flags` are those that flags.json explains.

    Raises:
        FixtureError: naming the file, the case, and what is wrong with it.
    """
    manifest = _object(data, "manifest.json")
    cases = manifest.get("cases")
    if set(manifest) != {"cases"} or not isinstance(cases, list) or not cases:
        raise FixtureError("manifest.json: needs exactly a list of cases")
    for number, entry in enumerate(cases):
        try:
            _check(entry, flags)
        except FixtureError as error:
            id = entry.get("id") if isinstance(entry, dict) else None
            raise FixtureError(f"manifest.json: case {number} ({id!r:.80}): {error}") from None
    for name in ("id", "file"):
        if len({entry[name] for entry in cases}) != len(cases):
            raise FixtureError(f"manifest.json: two cases have the same {name}")
    if sum(_generated_bytes(entry) for entry in cases) > _MOST_GENERATED:
        raise FixtureError(f"manifest.json: generates more than {_MOST_GENERATED:,} bytes")
    return cases


def versions(data: bytes) -> dict[str, list[str]]:
    """The lists of ids in versions.json, by the version's name."""
    lists = _object(data, "versions.json")
    for name, ids in lists.items():
        if not _ID.fullmatch(name) or not _unique(ids) or not all(map(_ID.fullmatch, ids)):
            raise FixtureError(f"versions.json: {name!r:.80} is no list of ids, each there once")
    return lists


def flags(data: bytes) -> dict[str, dict[str, str | None]]:
    """What flags.json says of each flag: the fault, and a public report or None."""
    explained = _object(data, "flags.json")
    for name, flag in explained.items():
        if not (
            _ID.fullmatch(name)
            and isinstance(flag, dict)
            and set(flag) == {"fault", "report"}
            and _is_text(flag["fault"])
            and (flag["report"] is None or _is_text(flag["report"]))
        ):
            raise FixtureError(f"flags.json: {name!r:.80} needs exactly a fault and a report")
    return explained


def _generated_bytes(entry: dict[str, Any]) -> int:
    return sum(
        math.prod(recipe["shape"]) * DTYPES[recipe["dtype"]].itemsize
        for recipe in entry["generated"].values()
    )


def _object(data: bytes, source: str) -> dict[str, Any]:
    try:
        value = parse(data)
    except ValueError as error:
        raise FixtureError(f"{source}: not strict JSON: {error}") from None
    if not isinstance(value, dict):
        raise FixtureError(f"{source}: not a JSON object")
    return value


def _check(entry: Any, flags: Collection[str]) -> None:
    if not isinstance(entry, dict) or set(entry) != {*_FIELDS, "flags"}:
        raise FixtureError(f"needs exactly the properties {', '.join(_FIELDS)} and flags")
    for name, (holds, meaning) in _FIELDS.items():
        if not holds(entry[name]):
            raise FixtureError(f"{name} must be {meaning}, got {entry[name]!r:.80}")
    if not _unique(entry["flags"]) or not entry["flags"] or set(entry["flags"]) - set(flags):
        raise FixtureError(f"flags must be of flags.json, each once, got {entry['flags']!r:.80}")
    operator = entry["operator"]
    for name in entry["tolerances"]:
        if not (returns(operator, name) or _in_group("gradient", name, takes, operator)):
            raise FixtureError(f"tolerances has {name!r:.80}, which is no result of {operator}")
    for name in entry["generated"]:
        if not (
            _in_group("input", name, takes, operator)
            or _in_group("cotangent", name, returns, operator)
        ):
            raise FixtureError(f"generated has {name!r:.80}, which is no tensor of {operator}")
    if entry["error"] is not None and (entry["tolerances"] or entry["tolerance_reason"]):
        raise FixtureError("a refused call has no results to be tolerant of")


def _in_group(group: str, name: str, known: Callable[[str, str], bool], operator: str) -> bool:
    first, _, rest = name.partition(".")
    return first == group and rest not in _NO_FLOATS and known(operator, rest)


def _is_text(x: Any) -> bool:
    return isinstance(x, str) and x != ""


def _is_number(x: Any) -> bool:
    return type(x) in (int, float)


def _unique(x: Any) -> bool:
    """Whether this is a list of texts, each there once."""
    return isinstance(x, list) and all(map(_is_text, x)) and len(set(x)) == len(x)


def _matches(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda x: isinstance(x, str) and pattern.fullmatch(x) is not None


def _one_of(names: Collection[str]) -> Callable[[Any], bool]:
    return lambda x: isinstance(x, str) and x in names


def _are_arguments(x: Any) -> bool:
    tensors = {name for names in INPUTS.values() for name in names}
    return isinstance(x, dict) and all(
        _ARGUMENT.fullmatch(name)
        and name not in tensors
        and (value is None or isinstance(value, (str, bool)) or _is_number(value))
        for name, value in x.items()
    )


def _are_parts(x: Any) -> bool:
    return x is None or (is_naturals(x) and len(x) >= 2)


def _are_tokens(x: Any) -> bool:
    return x is None or (is_naturals(x) and x != [] and x == sorted(set(x)))


def _are_recipes(x: Any) -> bool:
    return isinstance(x, dict) and all(map(_is_recipe, x.values()))


def _is_recipe(x: Any) -> bool:
    return (
        isinstance(x, dict)
        and set(x) == {"dtype", "shape", "seed", "offset", "exponent", "sha256"}
        and _one_of(("F64", "F32", "F16", "BF16"))(x["dtype"])
        and is_shape(x["shape"], DTYPES[x["dtype"]])
        and all(type(x[name]) is int for name in ("seed", "offset", "exponent"))
        and x["seed"] in range(2**32)
        and x["offset"] in _OFFSETS
        and x["exponent"] in _EXPONENTS
        and _matches(_SHA256)(x["sha256"])
    )


def _are_tolerances(x: Any) -> bool:
    return isinstance(x, dict) and all(_is_number(value) and value > 0 for value in x.values())


def _is_error(x: Any) -> bool:
    return x is None or (
        isinstance(x, dict)
        and set(x) == {"class", "pattern"}
        and _one_of(("TypeError", "ValueError"))(x["class"])
        and _matches(_PATTERN)(x["pattern"])
    )


_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "id": (_matches(_ID), "words of lower-case letters and digits, joined by hyphens"),
    "summary": (_is_text, "a text"),
    "clause": (_is_text, "a text"),
    "operator": (_one_of(INPUTS), f"one of {', '.join(INPUTS)}"),
    "dtype": (_one_of(VALUE), f"one of {', '.join(VALUE)}"),
    "arguments": (_are_arguments, "an object of plain values, none named as a tensor is"),
    "parts": (_are_parts, "null or two numbers of tokens or more"),
    "tokens": (_are_tokens, "null or indices of tokens, increasing"),
    "file": (_matches(_FILE), "a path of the form cases/ID.safetensors"),
    "generated": (_are_recipes, "an object of recipes for tensors"),
    "tolerances": (_are_tolerances, "an object of positive numbers, by the tensor's name"),
    "tolerance_reason": (lambda x: x is None or _is_text(x), "null or a text"),
    "error": (_is_error, "null or a class and a pattern of literal text"),
}
