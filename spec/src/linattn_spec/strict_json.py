"""JSON that every parser reads alike, or a ValueError that says what is wrong.

Refused are, besides what is no JSON: bytes that are no UTF-8, half a surrogate pair, a key twice in
one object, NaN and infinities, integers that a float64 does not keep, and deep nesting.
"""

import json
import math
import re
from itertools import accumulate
from typing import Any, NoReturn

DEEPEST = 16
LARGEST_INTEGER = 2**53 - 1

# The closing quote may lack: otherwise the search would start anew at every quote before the end.
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_STEP = {"[": 1, "{": 1, "]": -1, "}": -1}


def parse(data: bytes) -> Any:
    """The value in `data`."""
    text = data.decode()
    # Before json.loads, which would use a C stack frame for every level.
    brackets = re.findall(r"[\[\]{}]", _STRING.sub("", text))
    if max(accumulate(_STEP[b] for b in brackets), default=0) > DEEPEST:
        raise ValueError(f"nested deeper than {DEEPEST} levels")
    value = json.loads(
        text,
        object_pairs_hook=_object,
        parse_int=_integer,
        parse_float=_float,
        parse_constant=_constant,
    )
    # "\ud800" is JSON but no text: it could not even be printed.
    json.dumps(value, ensure_ascii=False).encode()
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"the key {name!r:.80} is there twice")
        members[name] = value
    return members


def _integer(text: str) -> int:
    # int() of thousands of digits is slow, or refused with an error of its own.
    if len(text) > 20 or abs(int(text)) > LARGEST_INTEGER:
        raise ValueError(f"{text:.30} is beyond the integers that every parser keeps")
    return int(text)


def _float(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(f"{text:.30} is beyond float64")
    return float(text)


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")
