"""The page that a run leaves: its numbers, its pictures, and how to get them again."""

from benchmarks import crossover, limits
from benchmarks.report import HEADINGS, cells, judged, missing, ordered, unjudged

HOW = """# Benchmarks

What the packages cost, beside each other and beside what else there is. This page and
`results.json` are written by the command that measures. Ratios are of medians in one run, in which
all contenders took turns.

```console
nox -s bench    # all of it, in half an hour to an hour
nox -s bench -- --suite field --shape 1,2048,8,64    # one part of it
nox -s bench -- --contender "torch-*" --repeats 5    # some contenders
nox -s bench -- --reduced    # a few ratios
nox -s bench -- --out benchmarks    # writes this page
```

Every family of contenders has a process of its own, and one of them computes at a time. What a
contender returns is compared with `linattn_core` in float64 on the same arrays before it is timed;
who is wrong is not timed. Before a call of less than half a second comes one that is not timed,
because others have computed in between. A process keeps the memory that it has freed, as
long-running programs do. "gradient" is forward and backward, "step" one call per token.

In the tables, "ms" is the median; "share" what the multiplications that the chunk form needs, at
chunks of 64, have of the rate of the fastest large product; "first s" the first call, with building
and compiling; "MiB" the largest resident set of a call beyond inputs, imports and compiled
programs, in a fresh process; "error" the worst of all results, relative to the largest entry of
each.
"""

BOUNDS = """## What bounds the targets that are missed

The bound is the ratio if nothing cost time but what the last column names, at its speed in this
run. What lies between a ratio and its bound is known from profiles:

- PyTorch against Transformers: products of what fits the caches are nearly as fast as one large
  product, and of what does not are half as fast. So a sequence is computed in segments, and each
  of them costs some dozens of calls, which shorter segments have more of. No faster were chunks of
  32 tokens, segments of an eighth to twice the size, the gradient by autograd, both right sides
  solved in one product, and results written into tensors that exist.
- The same time per token at every length: short sequences stay in the caches from one call to the
  next and pay for the call, long ones do neither.
- "linear" against gated_delta: counted in operations it is not twice as cheap. On JAX a loop over
  its chunks would be faster on a CPU, but the form is to have none.
- A step: the machine copies a state in less time than a framework takes to be called. PyTorch,
  not compiled, is called for each of some fifty operators, five of which read or write the state.
- The share of the matmul rate: products of chunks are far slower than one large product in every
  framework, as the next table has them, and NumPy's element-wise operations run on one core.
"""


def write(path, machine, versions, absent, measurements, targets, pictures):
    parts = [HOW, _machine(machine, versions, absent), _targets(targets, measurements)]
    parts += [_bounds(targets, measurements), _limits(measurements), _crossovers(measurements)]
    parts += [f"## {title}\n\n![{title}]({name})\n" for name, title in pictures.items()]
    parts.append(_measurements(measurements))
    path.write_text("\n".join(parts), encoding="utf-8")


def _machine(machine, versions, absent):
    lines = [f"- {name}: {value}" for name, value in machine.items()]
    lines.append("- " + ", ".join(f"{name} {version}" for name, version in versions.items()))
    lines += [f"- absent: {family}, because {reason}" for family, reason in absent.items()]
    return "## The machine\n\n" + "\n".join(lines) + "\n"


def _targets(targets, measurements):
    rows = [
        [target.name, target.limit, f"{ratio:.3g}", "yes" if target.met(ratio) else "**no**"]
        for target, ratio in judged(targets, measurements)
    ]
    table = _table(["target", "limit", "ratio", "met"], rows)
    return f"## Targets\n\n{table}\n{unjudged(targets, measurements)}\n"


def _bounds(targets, measurements):
    rows = []
    for target, ratio in judged(targets, measurements):
        bound = target.bound and target.bound.ratio(measurements)
        if bound is not None and not target.met(ratio):
            rows.append(
                [target.name, target.limit, f"{ratio:.3g}", f"{bound:.3g}", target.bound.name]
            )
    if not rows:
        return ""
    table = _table(["target", "limit", "ratio", "bound", "what the bound is"], rows)
    return f"{BOUNDS}\n{table}"


def _limits(measurements):
    rows = list(limits.rows(measurements))
    if not rows:
        return ""
    table = _table(limits.HEADINGS, rows)
    return (
        "## The machine's limits\n\n"
        "One large product; the products of all chunks of 64 tokens in one call; copies, read and\n"
        "written; and a step, a call that reads the state of H = 16, D = 128 and writes it.\n\n"
        f"{table}"
    )


def _crossovers(measurements):
    rows = list(crossover.crossovers(measurements))
    if not rows:
        return ""
    table = _table(crossover.HEADINGS, rows)
    return f"## Where softmax attention falls behind\n\nAt H = 8, D = 64.\n\n{table}"


def _measurements(measurements):
    parts, fastest = ["## All measurements\n"], limits.rate(measurements)
    for (which, problem), group in ordered(measurements):
        parts.append(f"### {which}: {problem}\n")
        rows = [[m.contender, *cells(m, fastest)] for m in group]
        parts.append(_table(["contender", *HEADINGS], rows))
        parts += [f"{line}.\n" for line in missing(group)]
    return "\n".join(parts)


def _table(headings, rows):
    lines = [list(headings), ["---"] + ["---:"] * (len(headings) - 1), *rows]
    return "\n".join("| " + " | ".join(_cell(x) for x in line) + " |" for line in lines) + "\n"


def _cell(text):
    return text.replace("|", "\\|")
