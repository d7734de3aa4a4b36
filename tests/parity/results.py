"""What a worker writes and the comparison reads: a safetensors and a JSON file per package."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from linattn_spec.fixtures import fixtures_directory
from linattn_spec.safetensors_format import FixtureError, decode, encode
from parity.plan import Call


class ResultError(Exception):
    """A result that is absent, damaged or incomplete."""


@dataclass(frozen=True)
class Outcome:
    """What came of a call: tensors by name, or the class and the text of what was raised."""

    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    raised: tuple[str, str] | None = None


@dataclass(frozen=True)
class Results:
    """All that a package answered in a run, on fixtures with this fingerprint."""

    package: str
    run: str
    fixtures: str
    versions: dict[str, str]
    outcomes: dict[Call, Outcome]


def fixtures_fingerprint() -> str:
    """The hash of the index, which holds the hash of every other file."""
    return hashlib.sha256((fixtures_directory() / "index.sha256").read_bytes()).hexdigest()


def save(results: Results, directory: Path) -> None:
    tensors = {
        _key(call, name): tensor
        for call, outcome in results.outcomes.items()
        for name, tensor in outcome.tensors.items()
    }
    data = encode(tensors)
    description = {
        "package": results.package,
        "run": results.run,
        "fixtures": results.fixtures,
        "versions": results.versions,
        "tensors": hashlib.sha256(data).hexdigest(),
        "outcomes": [
            {**call._asdict(), "tensors": list(outcome.tensors), "raised": outcome.raised}
            for call, outcome in results.outcomes.items()
        ],
    }
    _tensors(directory, results.package).write_bytes(data)
    _description(directory, results.package).write_text(json.dumps(description, indent=1))


def load(package: str, directory: Path) -> Results:
    """The results of `package`.

    Raises:
        ResultError: there are none, or they are not what was written.
    """
    try:
        description = json.loads(_description(directory, package).read_text())
        data = _tensors(directory, package).read_bytes()
        if hashlib.sha256(data).hexdigest() != description.pop("tensors"):
            raise ResultError("the tensors are not those that belong to the description")
        tensors = decode(data)
        outcomes = {
            call: Outcome(
                {name: tensors[_key(call, name)] for name in entry["tensors"]},
                entry["raised"] and tuple(entry["raised"]),
            )
            for entry in description.pop("outcomes")
            for call in [Call(entry["case"], entry["mode"])]
        }
        return Results(**description, outcomes=outcomes)
    except OSError as error:
        raise ResultError(f"no result: {error.strerror} ({error.filename})") from None
    except (KeyError, TypeError, ValueError, FixtureError) as error:
        raise ResultError(f"damaged result: {type(error).__name__}: {error}") from None


def discard(package: str, directory: Path) -> None:
    """Removes what an earlier run left, so that it cannot stand in for this one's."""
    for path in (_description(directory, package), _tensors(directory, package)):
        path.unlink(missing_ok=True)


def _key(call: Call, name: str) -> str:
    return f"{call.case}/{call.mode}/{name}"


def _tensors(directory: Path, package: str) -> Path:
    return directory / f"{package}.safetensors"


def _description(directory: Path, package: str) -> Path:
    return directory / f"{package}.json"
