"""What was found out about a contender on a problem, and how it is summed up."""

from dataclasses import asdict, dataclass, field

import numpy as np

from benchmarks.problems import Problem


@dataclass
class Measurement:
    """One contender on one problem in one pass.

    Attributes:
        seconds: of a call, one of each round.
        first_call: seconds of building and calling for the first time, so compilation too.
        errors: max |x - expected| / max |expected| by result.
        peak: bytes beyond inputs and imports.
        reason: why it was not timed, or None.
        peak_reason: why a peak was asked for and is not there, or None.
    """

    contender: str
    problem: Problem
    which: str
    seconds: list[float] = field(default_factory=list)
    first_call: float | None = None
    errors: dict[str, float] = field(default_factory=dict)
    peak: int | None = None
    reason: str | None = None
    peak_reason: str | None = None

    @property
    def key(self):
        return self.contender, self.problem, self.which

    @property
    def median(self):
        return float(np.median(self.seconds)) if self.seconds else None

    @property
    def quartiles(self):
        return tuple(np.quantile(self.seconds, (0.25, 0.75))) if self.seconds else None

    @property
    def per_token(self):
        batch, tokens, _, _ = self.problem.shape
        return self.median / (batch * tokens) if self.seconds else None

    def json(self):
        summary = {}
        if self.seconds:
            low, high = self.quartiles
            best = min(self.seconds)
            summary = {"median": self.median, "min": best, "quartiles": [low, high]}
        # JSON has no infinity: an error without a number is a string.
        errors = {n: x if np.isfinite(x) else str(x) for n, x in self.errors.items()}
        return asdict(self) | {"problem": self.problem.json(), "errors": errors, **summary}

    @classmethod
    def of(cls, values):
        """The measurement that `json` wrote."""
        given = {n: x for n, x in values.items() if n in cls.__dataclass_fields__}
        errors = {n: float(x) for n, x in given["errors"].items()}
        return cls(**given | {"problem": Problem.of(values["problem"]), "errors": errors})
