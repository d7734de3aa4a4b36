"""The comparison as a picture: how much of its tolerance each worst error takes up."""

from collections.abc import Iterable
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from parity.cells import Cells, Column, columns, rows
from parity.report import heading

_SMALLEST, _BEYOND, _WHITE_BELOW = 1e-4, 10.0, 0.02


def draw(filled: Cells, packages: Iterable[str], path: Path) -> None:
    order = rows(filled)
    groups = [group for group in columns(packages) if group]
    titles = ["against the definition", "against any other"]
    size = (4.0 + 1.0 * sum(map(len, groups)), 1.9 + 0.33 * len(order))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(
        1, len(groups), squeeze=False, sharey=True, width_ratios=[len(group) for group in groups]
    )[0]
    colors = matplotlib.colormaps["viridis"].with_extremes(over="crimson", bad="lightgrey")
    norm = LogNorm(_SMALLEST, 1.0)
    for panel, group, title in zip(axes, groups, titles, strict=False):
        shares = np.array([[_share(filled, row, column) for column in group] for row in order])
        image = panel.imshow(np.maximum(shares, _SMALLEST), cmap=colors, norm=norm, aspect="auto")
        panel.set_title(title, fontsize=11, pad=8)
        _label(panel, order, group)
        _annotate(panel, filled, order, group, shares)
    labels = [f"{rule:>12}  {dtype:<8}" for rule, dtype in order]
    axes[0].set_yticks(range(len(order)), labels, family="monospace")
    figure.suptitle("Worst relative error, and its share of the tolerance", fontsize=14)
    bar = figure.colorbar(image, ax=axes, extend="both", fraction=0.035, pad=0.01)
    bar.set_label("error / tolerance of the tensor that is closest to its tolerance (log scale)")
    figure.savefig(path, dpi=130)


def _share(filled: Cells, row: tuple[str, str], column: Column) -> float:
    cell = filled.get((*row, column))
    if cell is None:
        return np.nan
    # What is infinite or no number would be drawn as if it had not been measured.
    return cell.closest.share if np.isfinite(cell.closest.share) else _BEYOND


def _label(panel: Axes, order: list[tuple[str, str]], group: list[Column]) -> None:
    panel.set_xticks(range(len(group)), [heading(column) for column in group])
    panel.tick_params(length=0, labelsize=10)
    panel.spines[:].set_visible(False)
    for number in range(1, len(order)):
        if order[number][0] != order[number - 1][0]:
            panel.axhline(number - 0.5, color="white", linewidth=4)


def _annotate(
    panel: Axes,
    filled: Cells,
    order: list[tuple[str, str]],
    group: list[Column],
    shares: np.ndarray,
) -> None:
    for y, row in enumerate(order):
        for x, column in enumerate(group):
            cell = filled.get((*row, column))
            if cell is None:
                text, color = "none", "black"
            else:
                text = f"{cell.worst.error:.1e}" if cell.worst.error else "0"
                color = "white" if not _WHITE_BELOW < shares[y, x] <= 1 else "black"
            panel.text(x, y, text, ha="center", va="center", fontsize=9, color=color)
