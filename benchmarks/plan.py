"""Which contender does what, in which rounds."""

from collections import defaultdict
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from benchmarks.problems import Problem


@dataclass
class Rounds:
    """What takes turns: `(contender, problem, which)`, each once."""

    entries: list = field(default_factory=list)
    memory: list = field(default_factory=list)  # those whose peak is measured too


def plan(groups, contenders, patterns=("*",), shapes=None):
    """The rounds of `groups` for contenders by name, restricted to patterns and to shapes."""
    rounds = defaultdict(Rounds)
    for group in groups:
        named = [
            name
            for name in contenders
            if _matches(name, group.contenders) and _matches(name, patterns)
        ]
        for problem in _problems(group, shapes):
            for which in group.passes:
                together = rounds[which, group.rounds or (problem.shape, problem.dtype)]
                entries = [(name, problem, which) for name in named]
                together.entries += [x for x in entries if x not in together.entries]
                if group.memory and which == "gradient":
                    together.memory += [x for x in entries if x not in together.memory]
    return [x for x in rounds.values() if x.entries]


def _problems(group, shapes):
    for shape in group.shapes:
        for dtype in group.dtypes:
            for rule, per_key in group.rules:
                if shapes is None or shape in shapes:
                    yield Problem(rule, shape, per_key, dtype)


def _matches(name, patterns):
    return any(fnmatchcase(name, pattern) for pattern in patterns)
