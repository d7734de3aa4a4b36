"""What is measured, as data."""

from dataclasses import dataclass

from benchmarks.problems import LINEAR

SHAPES = ((1, 2048, 8, 64), (1, 4096, 8, 128), (4, 512, 8, 64), (1, 16384, 8, 64))
LENGTHS = (64, 256, 1024, 4096, 16384, 65536, 131072)
BOTH = ("forward", "gradient")

# Each package once, with the form that is fast in the long run.
PARALLEL = ("numpy-parallel", "torch-eager-parallel", "jax-jit-parallel", "tf-xla-parallel")
# All that takes part at lengths where a state for each token still fits.
ALL = (
    "*-parallel",
    "*-recurrent",
    "jax-jit-auto",
    "transformers-*",
    "keras-hub-*",
    "onnxruntime",
)


@dataclass(frozen=True)
class Group:
    """Problems whose contenders take turns with each other.

    Attributes:
        rules: one problem each, at every shape and dtype; (rule, True) has a decay per key.
        passes: each is a set of rounds of its own.
        contenders: patterns of names.
        memory: whether the peak of the gradient is measured too, each in a process of its own.
        rounds: groups of the same name take turns with each other, whatever their shapes;
            without a name, those of the same shape and dtype do.
    """

    rules: tuple[tuple[str, bool], ...]
    shapes: tuple[tuple[int, int, int, int], ...]
    passes: tuple[str, ...] = BOTH
    contenders: tuple[str, ...] = ("*",)
    dtypes: tuple[str, ...] = ("float32",)
    memory: bool = False
    rounds: str = ""


GATED_DELTA = (("gated_delta", False),)

SUITES = {
    # Everyone on the rule that the field has, at the shapes of the targets.
    "field": (
        Group(GATED_DELTA, (SHAPES[0], SHAPES[2]), contenders=ALL),
        Group(
            GATED_DELTA,
            SHAPES[1:2],
            contenders=("*-parallel", "jax-jit-auto", "transformers-chunk", "onnxruntime"),
        ),
        Group(GATED_DELTA, SHAPES[1:2], passes=("forward",), contenders=("*-recurrent",)),
        # Without those that would keep a state for each of 16,384 tokens, in 2 GiB.
        Group(
            GATED_DELTA,
            SHAPES[3:],
            contenders=("*-parallel", "jax-jit-auto", "transformers-chunk", "onnxruntime"),
            memory=True,
            rounds="scaling",
        ),
        Group(
            GATED_DELTA,
            SHAPES[3:],
            passes=("forward",),
            contenders=("*-recurrent",),
            rounds="scaling",
        ),
    ),
    # All rules, and what a decay per key costs.
    "rules": (
        Group(
            tuple((rule, False) for rule in LINEAR) + (("gated", True), ("gated_delta", True)),
            SHAPES[:1],
            contenders=(*PARALLEL, "tf-graph-parallel", "onnxruntime"),
        ),
    ),
    # The normalised kernel attention.
    "kernel": (
        Group((("kernel", False), ("kernel_causal", False)), SHAPES[:1], contenders=PARALLEL),
    ),
    # Half precision, where a framework has it.
    "bfloat16": (Group(GATED_DELTA, SHAPES[:1], contenders=("*parallel",), dtypes=("bfloat16",)),),
    # Time and memory against T. The longest takes turns by itself, or memory would not suffice.
    "scaling": tuple(
        Group(
            GATED_DELTA,
            ((1, tokens, 8, 64),),
            contenders=PARALLEL,
            memory=tokens >= 1024,
            rounds="scaling" if tokens < LENGTHS[-1] else "longest",
        )
        for tokens in LENGTHS
    )
    + tuple(
        Group(
            GATED_DELTA, ((1, tokens, 8, 64),), contenders=("transformers-chunk",), rounds="scaling"
        )
        for tokens in LENGTHS[:5]
    ),
    # Where softmax attention becomes the slower one.
    "softmax": tuple(
        Group(
            (("softmax", False), *GATED_DELTA, ("linear", False)),
            ((1, tokens, 8, 64),),
            passes=BOTH if tokens <= 4096 else ("forward",),
            contenders=(*PARALLEL, "*-softmax"),
            rounds="scaling",
        )
        for tokens in LENGTHS[:5]
    ),
    # One decoding step, beside copying its state once.
    "step": (
        Group(
            (*GATED_DELTA, ("copy", False)),
            ((1, 200, 16, 128),),
            passes=("step",),
            contenders=("*-auto", "*-copy"),
        ),
    ),
    # The machine's own limits: matrix products, and 2 and 32 MiB copied.
    "machine": (
        Group(
            (("matmul", False),),
            ((1, 1024, 1, 1024),),
            passes=("forward",),
            contenders=("*-matmul",),
            rounds="machine",
        ),
        Group(
            (("chunk_products", False),),
            SHAPES[:2],
            passes=("forward",),
            contenders=("*-matmul",),
            rounds="machine",
        ),
        Group(
            (("copy", False),),
            ((1, 1024, 8, 64), SHAPES[3]),
            passes=("forward",),
            contenders=("*-copy",),
            rounds="machine",
        ),
    ),
}

# What a regression breaks, in a few minutes; all of it takes turns.
REDUCED = (
    Group(
        (("gated_delta", False), ("gated_delta", True)),
        ((1, 2048, 4, 32),),
        contenders=("numpy-parallel", "torch-eager-parallel", "jax-jit-parallel"),
        rounds="reduced",
    ),
    Group(
        GATED_DELTA,
        ((1, 2048, 4, 32),),
        passes=("gradient",),
        contenders=("numpy-recurrent", "torch-eager-recurrent", "jax-jit-recurrent"),
        rounds="reduced",
    ),
    Group(
        GATED_DELTA,
        ((1, 8192, 4, 32),),
        contenders=("numpy-parallel", "torch-eager-parallel", "jax-jit-parallel"),
        rounds="reduced",
    ),
)
