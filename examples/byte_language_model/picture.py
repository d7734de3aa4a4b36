"""The one picture: what was learnt, and what a token costs."""

import matplotlib

matplotlib.use("Agg")  # no window, on machines without a screen too

import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, NullFormatter

PLAIN = FuncFormatter(lambda x, _: f"{x:g}")


def draw(path, figures):
    """Writes the picture of a run's `figures`."""
    figure, (learning, seconds, memory) = plt.subplots(1, 3, figsize=(15, 4.5), layout="tight")
    _draw_learning(learning, figures["bits_per_byte"])
    _draw_cost(seconds, figures["cost_per_token"], "seconds", 1e3, "milliseconds", "Time")
    _draw_cost(memory, figures["cost_per_token"], "bytes", 1 / 1024, "KiB", "Memory")
    figure.suptitle(f"Linear attention on Keras, backend {figures['backend']}")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_learning(axes, bits):
    epochs = range(1, len(bits["training"]) + 1)
    axes.plot(epochs, bits["training"], marker=".", label="training")
    axes.plot(epochs, bits["validation"], marker=".", label="validation, in part")
    axes.axhline(bits["unigram"], color="gray", linestyle=":", label="unigram")
    axes.axhline(bits["bigram"], color="gray", linestyle="--", label="bigram")
    axes.axhline(bits["model"], color="black", linewidth=0.8, label="model, all of validation")
    axes.set(title="Learning", xlabel="epoch", ylabel="bits per byte")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend()


def _draw_cost(axes, costs, what, factor, unit, title):
    for layer, cost in costs["layers"].items():
        axes.plot(costs["contexts"], [x * factor for x in cost[what]], marker="o", label=layer)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(PLAIN)
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set(title=f"{title} per decoded token", xlabel="tokens of context", ylabel=unit)
    axes.legend()
