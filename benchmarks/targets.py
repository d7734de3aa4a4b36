"""What the packages are meant to reach, as ratios of one run, and whether they do."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from benchmarks.operations import bytes_in_and_out, operations
from benchmarks.suites import LENGTHS, SHAPES


@dataclass(frozen=True)
class Side:
    """The best of some contenders, at one shape or, for a target on several, at the worst."""

    contenders: tuple[str, ...]
    which: str
    shapes: tuple[tuple[int, int, int, int], ...]
    rule: str = "gated_delta"
    per_key: bool = False

    def values(self, measurements, quantity):
        """The best value at each shape, where less is better; nothing if one was not measured."""
        best = []
        for shape in self.shapes:
            found = [
                x
                for m in measurements
                if self._means(m, shape) and (x := QUANTITIES[quantity](m)) is not None
            ]
            if not found:
                return []
            best.append(min(found))
        return best

    def _means(self, m, shape):
        problem = m.problem
        return (
            any(fnmatchcase(m.contender, pattern) for pattern in self.contenders)
            and (m.which, problem.rule, problem.per_key) == (self.which, self.rule, self.per_key)
            and problem.shape == shape
            and problem.dtype == "float32"
            and m.reason is None
        )


@dataclass(frozen=True)
class Ratio:
    """`over` divided by `under`, or `over` alone.

    Several shapes of `over` count with the largest value, several of `under` with the smallest.
    """

    name: str
    over: Side
    under: Side | None = None
    quantity: str = "seconds"

    def ratio(self, measurements):
        """None where a side was not measured."""
        over = self.over.values(measurements, self.quantity)
        if self.under is None:
            return max(over) if over else None
        under = self.under.values(measurements, self.quantity)
        return max(over) / min(under) if over and under else None


@dataclass(frozen=True)
class Target(Ratio):
    """A ratio that is to be at least or at most a limit.

    `bound` is what this machine would make of the ratio if nothing cost time but what its name
    says, as the same run found it.
    """

    at_least: float | None = None
    at_most: float | None = None
    bound: Ratio | None = None

    def met(self, ratio):
        return ratio >= self.at_least if self.at_most is None else ratio <= self.at_most

    @property
    def limit(self):
        return f"≥ {self.at_least:g}" if self.at_most is None else f"≤ {self.at_most:g}"


def _share(m):
    needed = bytes_in_and_out(m.problem, m.which)
    return None if m.peak is None else m.peak / needed


def _seconds_to_compile(m):
    return m.first_call - m.median if m.seconds else None


def _seconds_per_operation(m):
    return m.median / operations(m.problem, m.which) if m.seconds else None


QUANTITIES = {
    "seconds": lambda m: m.median,
    "seconds per token": lambda m: m.per_token,
    "seconds to compile": _seconds_to_compile,
    "seconds per operation": _seconds_per_operation,
    "operations": lambda m: operations(m.problem, m.which),
    "peak bytes": lambda m: m.peak,
    "peak bytes per byte": _share,
}

TORCH = ("torch-eager-parallel",)
JAX = ("jax-jit-parallel",)
XLA, GRAPH = ("tf-xla-parallel",), ("tf-graph-parallel",)
EACH = {"NumPy": ("numpy-parallel",), "torch": TORCH, "JAX": JAX, "TensorFlow XLA": XLA}
SHORT, WIDE, BATCH, LONG = ((shape,) for shape in SHAPES)
CACHED = ((1, 1024, 8, 64),)
FLAT = tuple((1, tokens, 8, 64) for tokens in LENGTHS if 1024 <= tokens <= 65536)
STEP = ((1, 200, 16, 128),)
MATMUL = ("torch-matmul", "numpy-matmul")
PRODUCT = Side(MATMUL, "forward", ((1, 1024, 1, 1024),), rule="matmul")


def _faster(name, slow, fast, which, shapes, at_least, bound=None):
    over, under = Side(slow, which, shapes), Side(fast, which, shapes)
    return Target(name, over, under, at_least=at_least, bound=bound)


def _field():
    chunk = ("transformers-chunk",)
    for name, which, shapes, at_least in (
        ("torch than transformers, forward", "forward", SHORT, 2),
        ("torch than transformers, gradient", "gradient", SHORT, 3),
        ("the same at T = 16,384", "gradient", LONG, 20),
    ):
        theirs = Side(chunk, which, shapes)
        bound = Ratio(
            "the operations needed, as fast as one large product",
            theirs,
            PRODUCT,
            "seconds per operation",
        )
        yield _faster(name, chunk, TORCH, which, shapes, at_least, bound)
    scan = ("jax-jit-recurrent",)
    yield _faster("JAX than its token scan, gradient", scan, JAX, "gradient", SHORT, 8)
    for shape in SHAPES:
        name = f"JAX auto to its better form, forward {'×'.join(map(str, shape))}"
        over = Side(("jax-jit-auto",), "forward", (shape,))
        yield Target(name, over, Side((*scan, *JAX), "forward", (shape,)), at_most=1.2)
    over = Side(("jax-jit-*",), "gradient", SHAPES)
    compiling = "seconds to compile"
    yield Target("JAX, seconds to compile", over, at_most=2, quantity=compiling)
    for how, form in (("XLA", XLA), ("graph", GRAPH)):
        loop = (f"tf-{how.lower()}-recurrent",)
        name = f"TensorFlow {how} than its token loop, gradient"
        yield _faster(name, loop, form, "gradient", SHORT, 5)
        # XLA compiles theirs at the longer shape for many minutes.
        hub, shape = (f"keras-hub-tf-{how.lower()}",), BATCH if how == "XLA" else SHORT
        yield _faster(f"TensorFlow {how} than keras-hub", hub, form, "gradient", shape, 2)


def _growth():
    copies = ("numpy-copy", "torch-copy")
    in_cache, beyond = (Side(copies, "forward", x, rule="copy") for x in (CACHED, LONG))
    copied = Ratio("copies, of 2 MiB and of 32 MiB", beyond, in_cache, "seconds per token")
    for name, form in EACH.items():
        for which in ("forward", "gradient"):
            side = Side(form, which, FLAT)
            yield Target(
                f"{name}, time per token from T = 1,024 to 65,536, {which}",
                side,
                side,
                at_most=1.15,
                quantity="seconds per token",
                bound=copied,
            )
        over = Side(form, "gradient", LONG)
        yield Target(
            f"{name}, peak to bytes in and out, gradient at T = 16,384",
            over,
            at_most=3,
            quantity="peak bytes per byte",
        )
        over = Side(form, "gradient", ((1, 131072, 8, 64),))
        name = f"{name}, peak bytes of the gradient at T = 131,072"
        yield Target(name, over, at_most=6 * 2**30, quantity="peak bytes")


def _rules():
    for name, form in EACH.items():
        for which in ("forward", "gradient"):
            per_key = Side(form, which, SHORT, per_key=True)
            per_head = Side(form, which, SHORT)
            linear = Side(form, which, SHORT, rule="linear")
            yield Target(f"{name}, per key to per head, {which}", per_key, per_head, at_most=2.5)
            needed = Ratio(
                "the operations needed, at the same rate", per_head, linear, "operations"
            )
            name_of_linear = f"{name}, linear than gated_delta, {which}"
            yield Target(name_of_linear, per_head, linear, at_least=2, bound=needed)


def _limits():
    copied = Side(("numpy-copy",), "step", STEP, rule="copy")
    # Each beside the call of its framework that only reads the state and writes it.
    steps = {
        "torch-eager-auto": "torch-copy",
        "torch-compile-auto": "torch-compile-copy",
        "jax-jit-auto": "jax-jit-copy",
        "tf-graph-auto": "tf-graph-copy",
        "tf-xla-auto": "tf-xla-copy",
    }
    for name, least in steps.items():
        over, rewritten = Side((name,), "step", STEP), Side((least,), "step", STEP, rule="copy")
        bound = Ratio("a call that reads the state and writes it", rewritten, copied)
        target = f"{name}, a step to a copy of its state"
        yield Target(target, over, copied, at_most=3, bound=bound)
    for name, form in EACH.items():
        for which in ("forward", "gradient"):
            yield Target(
                f"{name}, share of the matmul rate at D = 128, {which}",
                PRODUCT,
                Side(form, which, WIDE),
                at_least=0.25,
                quantity="seconds per operation",
            )
    for name, form in EACH.items():
        softmax = Side(("torch-softmax",), "forward", LONG, rule="softmax")
        linear = Side(form, "forward", LONG)
        yield Target(f"{name} than softmax attention, T = 16,384", softmax, linear, at_least=4)


TARGETS = (*_field(), *_growth(), *_rules(), *_limits())


def _reduced():
    """Far from what is reached, so that noise does not break them and a regression does."""
    for how, at_least in (("numpy", 1.3), ("torch-eager", 3), ("jax-jit", 1.3)):
        form = (f"{how}-parallel",)
        short, longer = (((1, tokens, 4, 32),) for tokens in (2048, 8192))
        yield _faster(
            f"{how}, parallel than recurrent, gradient",
            (f"{how}-recurrent",),
            form,
            "gradient",
            short,
            at_least,
        )
        for which in ("forward", "gradient"):
            per_head = Side(form, which, short)
            per_key = Side(form, which, short, per_key=True)
            yield Target(f"{how}, per key to per head, {which}", per_key, per_head, at_most=5)
            yield Target(
                f"{how}, time per token from T = 2,048 to 8,192, {which}",
                Side(form, which, longer),
                Side(form, which, short),
                at_most=1.6,
                quantity="seconds per token",
            )


REDUCED = tuple(_reduced())
