"""What the machine does at most, as a run found it, and how near to that a contender comes."""

from benchmarks.operations import bytes_of_value, operations

HEADINGS = ("what", "GFLOP/s", "GB/s", "µs per token")


def rate(measurements):
    """The operations per second of the fastest large product; None if none was measured."""
    rates = [
        operations(m.problem, m.which) / m.median
        for m in measurements
        if m.problem.rule == "matmul" and m.seconds
    ]
    return max(rates, default=None)


def share(m, fastest):
    """The share of the rate `fastest` that the operations needed make up; None without."""
    if fastest is None or not m.seconds or m.which == "step" or m.problem.rule == "copy":
        return None
    return operations(m.problem, m.which) / m.median / fastest


def rows(measurements):
    """A table of what each framework does at most."""
    for m in measurements:
        if not m.seconds:
            continue
        name = f"{m.contender}, {m.problem}"
        if m.problem.rule in ("matmul", "chunk_products"):
            yield name, f"{operations(m.problem, m.which) / m.median / 1e9:.0f}", "", ""
        elif m.problem.rule == "copy" and m.which == "step":
            yield f"{m.contender}, a step", "", "", f"{m.per_token * 1e6:.1f}"
        elif m.problem.rule == "copy":
            yield name, "", f"{2 * bytes_of_value(m.problem) / m.median / 1e9:.1f}", ""
