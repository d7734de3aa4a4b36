"""The pictures of a run: time and memory against T, who is faster, and where softmax falls back."""

from collections import defaultdict

import matplotlib

matplotlib.use("Agg")  # no window, on machines without a screen too

import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.suites import LENGTHS, SHAPES

PLAIN = FuncFormatter(lambda x, _: f"{x:g}")
PER_HEAD = ("gated_delta", "float32", False)
FIELD = "transformers-chunk"


def draw(folder, measurements):
    """Draws what the measurements suffice for; `{file name: title}`."""
    found = [m for m in measurements if m.seconds]
    pictures = (
        ("time.png", "Time per token against T", _time),
        ("memory.png", "Peak memory of forward and backward against T", _memory),
        ("speedup.png", f"How many times faster than {FIELD}", _speedup),
        ("softmax.png", "Softmax attention against linear attention, forward", _softmax),
    )
    drawn = {}
    for name, title, function in pictures:
        figure = function(found)
        if figure is not None:
            figure.suptitle(title)
            figure.savefig(folder / name, dpi=120)
            plt.close(figure)
            drawn[name] = title
    return drawn


def _time(measurements):
    panels = ("forward", "gradient")
    curves = [_curves(measurements, which, lambda m: 1e6 * m.per_token) for which in panels]
    if not any(curves):
        return None
    figure, axes = plt.subplots(1, 2, figsize=(13, 5), layout="constrained", sharey=True)
    for axis, which, lines in zip(axes, panels, curves, strict=True):
        _plot(axis, lines, "microseconds per token", which)
    return figure


def _memory(measurements):
    lines = _curves([m for m in measurements if m.peak], "gradient", lambda m: m.peak / 2**20)
    if not lines:
        return None
    figure, axis = plt.subplots(figsize=(8, 5), layout="constrained")
    _plot(axis, lines, "MiB beyond the inputs", "gated_delta, H = 8, D = 64")
    return figure


def _softmax(measurements):
    lines = _curves(measurements, "forward", lambda m: 1e3 * m.median)
    softmax = ("softmax", "float32", False)
    compared = _curves(measurements, "forward", lambda m: 1e3 * m.median, softmax)
    if not lines or not compared:
        return None
    figure, axis = plt.subplots(figsize=(8, 5), layout="constrained")
    _plot(
        axis, {n: x for n, x in lines.items() if "parallel" in n}, "milliseconds", "H = 8, D = 64"
    )
    _plot(axis, compared, "milliseconds", "H = 8, D = 64", linestyle="--")
    return figure


def _speedup(measurements):
    """A bar for each contender of a problem that the field's chunk form was measured on, too."""
    panels = {}
    for shape in SHAPES:
        for which in ("forward", "gradient"):
            here = {
                m.contender: m.median
                for m in measurements
                if (m.problem.shape, m.which) == (shape, which) and _kind(m) == PER_HEAD
            }
            if FIELD in here and len(here) > 1:
                panels[which, shape] = here
    if not panels:
        return None
    figure, axes = plt.subplots(
        1, len(panels), figsize=(4.5 * len(panels), 6), layout="constrained", squeeze=False
    )
    for axis, ((which, shape), times) in zip(axes[0], panels.items(), strict=True):
        ranked = sorted(times, key=times.get, reverse=True)
        ratios = [times[FIELD] / times[name] for name in ranked]
        bars = axis.barh(ranked, ratios, color=[_colour(name) for name in ranked])
        axis.bar_label(bars, [f"{x:.2g}" for x in ratios], padding=2)
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set(title=f"{which}, {'×'.join(map(str, shape))}", xscale="log")
        axis.xaxis.set_major_formatter(PLAIN)
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.margins(x=0.2)
    return figure


def _kind(m):
    return m.problem.rule, m.problem.dtype, m.problem.per_key


def _curves(measurements, which, value, kind=PER_HEAD):
    """`{contender: [(T, value)]}` at the shapes of the scaling suite."""
    lines = defaultdict(list)
    for m in measurements:
        batch, tokens, *rest = m.problem.shape
        scaled = tokens in LENGTHS and (batch, rest) == (1, [8, 64])
        if m.which == which and _kind(m) == kind and scaled:
            lines[m.contender].append((tokens, value(m)))
    return {name: sorted(points) for name, points in lines.items() if len(points) > 1}


def _plot(axis, lines, unit, title, **style):
    for name, points in lines.items():
        axis.plot(*zip(*points, strict=True), marker="o", label=name, color=_colour(name), **style)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    for ticks in (axis.xaxis, axis.yaxis):
        ticks.set_major_formatter(PLAIN)
        ticks.set_minor_formatter(NullFormatter())
    axis.set(title=title, xlabel="T", ylabel=unit)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)


def _colour(name):
    """One colour for each framework, whoever wrote for it."""
    for part, colour in (
        ("numpy", "tab:gray"),
        ("keras-hub", "tab:pink"),
        ("torch", "tab:red"),
        ("jax", "tab:blue"),
        ("tensorflow", "tab:orange"),
        ("tf", "tab:orange"),
        ("transformers", "tab:green"),
        ("onnxruntime", "tab:purple"),
    ):
        if part in name:
            return colour
    return "black"
