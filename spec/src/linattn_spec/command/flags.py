"""The flags of the cases: the kind of fault that each stands for, and where it was reported."""

import json
from dataclasses import dataclass

from linattn_spec.fixtures import fixtures_directory


@dataclass(frozen=True)
class Flag:
    fault: str
    report: str | None

    @property
    def source(self) -> str:
        return self.report or "no public report"


def flags() -> dict[str, Flag]:
    """Every flag by its name."""
    text = (fixtures_directory() / "flags.json").read_text(encoding="utf-8")
    return {name: Flag(entry["fault"], entry["report"]) for name, entry in json.loads(text).items()}
