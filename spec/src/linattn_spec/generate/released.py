"""The cases that a release has had: an id is for ever the id of the same call.

released.json has, for each of them, the release that it came with and the hash of its call:
operator, arguments, inputs and cotangents to the bit, and the error of a refused one. Results are
not in it, for they may be recomputed; nor are sentence, flags and tolerances.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from linattn_spec.fixtures import Case

FILE = Path(__file__).with_name("released.json")
Released = dict[str, dict[str, str]]


def read() -> Released:
    released: Released = json.loads(FILE.read_text(encoding="utf-8"))
    return released


def release(cases: Iterable[Case], version: str) -> int:
    """Adds the cases that are new in release `version`; says how many there are."""
    released = read()
    new = {c.id: {"release": version, "call": call(c)} for c in cases if c.id not in released}
    text = json.dumps(released | new, indent=1)
    FILE.write_text(f"{text}\n", encoding="utf-8")
    return len(new)


def broken_promises(
    cases: Iterable[Case], released: Released, withdrawn: Iterable[str]
) -> list[str]:
    """The ids that would be another call than they were, or that are gone and not withdrawn."""
    calls = {case.id: call(case) for case in cases}
    found = [
        f"{id}: is another call than in release {entry['release']}; give the new one its own id"
        for id, entry in released.items()
        if calls.get(id, entry["call"]) != entry["call"]
    ]
    gone = released.keys() - calls.keys() - set(withdrawn)
    return found + [f"{id}: was released and is neither there nor withdrawn" for id in sorted(gone)]


def call(case: Case) -> str:
    """The hash of all that a case asks an implementation to do."""
    facts: dict[str, Any] = {
        "operator": case.operator,
        "arguments": case.arguments,
        "parts": case.parts,
        "error": case.error,
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for group in (case.inputs, case.cotangents):
        for name in sorted(group):
            x = group[name]
            digest.update(f"{name} {x.dtype} {x.shape} ".encode())
            digest.update(x.tobytes())
    return digest.hexdigest()
