"""From which T on linear attention is faster than softmax attention in the same framework."""

from math import exp, log

# Keras' layer, with its projections, where the framework has no operator of its own.
FRAMEWORKS = {
    "torch": ("torch-softmax", "torch-eager-parallel"),
    "JAX": ("keras-jax-softmax", "jax-jit-parallel"),
    "TensorFlow": ("keras-tensorflow-softmax", "tf-xla-parallel"),
}
HEADINGS = ("framework", "softmax attention", "rule", "pass", "faster from T")


def crossovers(measurements):
    """The rows of a table, one for each framework, rule and pass that was measured."""
    for framework, (softmax, linear) in FRAMEWORKS.items():
        for rule in ("linear", "gated_delta"):
            for which in ("forward", "gradient"):
                theirs = _seconds(measurements, softmax, "softmax", which)
                ours = _seconds(measurements, linear, rule, which)
                ratios = {t: theirs[t] / ours[t] for t in sorted(theirs.keys() & ours.keys())}
                if ratios:
                    yield framework, softmax, rule, which, _crossing(ratios)


def _seconds(measurements, contender, rule, which):
    """`{T: seconds}` at the shapes of the scaling suite."""
    found = {}
    for m in measurements:
        batch, tokens, *rest = m.problem.shape
        known = (m.contender, m.problem.rule, m.which) == (contender, rule, which)
        if known and m.seconds and (batch, rest) == (1, [8, 64]) and m.problem.dtype == "float32":
            found[tokens] = m.median
    return found


def _crossing(ratios):
    """Where the ratio reaches 1 for good, between two lengths on a line of logarithms."""
    lengths = list(ratios)
    slower = [t for t in lengths if ratios[t] < 1]
    if not slower:
        return f"{lengths[0]:,} or less"
    last = slower[-1]
    if last == lengths[-1]:
        return f"more than {last:,}"
    following = lengths[lengths.index(last) + 1]
    share = log(ratios[last]) / (log(ratios[last]) - log(ratios[following]))
    return f"{exp(log(last) + share * log(following / last)):,.0f}"
