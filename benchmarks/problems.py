"""What is computed: a rule at a shape in a dtype, and the arrays it is computed on."""

from dataclasses import asdict, dataclass

import numpy as np

SEED = 20261130
TOKENS = ("query", "key", "value", "log_decay", "log_decay_per_key", "beta")
# The rules of linear attention, kernel attention with and without order, and what they stand
# beside: softmax attention, and the three things that a machine's limits are stated in.
RULES = (
    "linear",
    "gated",
    "delta",
    "gated_delta",
    "kernel",
    "kernel_causal",
    "softmax",
    "matmul",
    "chunk_products",
    "copy",
)
LINEAR = RULES[:4]
# Forward; forward and backward; one call per token, each with the state of the one before.
PASSES = ("forward", "gradient", "step")


@dataclass(frozen=True)
class Problem:
    """A call. The shape is (B, T, H, D).

    "matmul" multiplies `[T, D]` by `[D, T]`; "chunk_products" the same for every 64 tokens of a
    head, in one call; "copy" copies the value, and as a step a state for every token.
    """

    rule: str
    shape: tuple[int, int, int, int]
    per_key: bool = False
    dtype: str = "float32"

    def __str__(self):
        decay = " per key" if self.per_key else ""
        sizes = "×".join(map(str, self.shape))
        return f"{self.rule}{decay} {sizes} {self.dtype}"

    @property
    def inputs(self):
        """`{argument: name of the array}`."""
        names = {name: name for name in ("query", "key", "value")}
        if self.rule in ("gated", "gated_delta"):
            names["log_decay"] = "log_decay_per_key" if self.per_key else "log_decay"
        if self.rule in ("delta", "gated_delta"):
            names["beta"] = "beta"
        return names

    @property
    def results(self):
        return ("output", "final_state") if self.rule in LINEAR else ("output",)

    def json(self):
        return asdict(self)

    @classmethod
    def of(cls, values):
        return cls(**{**values, "shape": tuple(values["shape"])})


def draw(shape, dtype):
    """Every array that a problem of this shape and dtype takes, rounded to the dtype, by name.

    Queries and keys have unit length, because some contenders give them that themselves. Decays
    are mild, as in trained models: with strong ones several contenders of the field are wrong.
    """
    batch, tokens, heads, width = shape
    random = np.random.default_rng(SEED)
    drawn = {
        name: random.standard_normal((batch, tokens, heads, width), dtype="float32")
        for name in ("query", "key", "value", "d_output")
    }
    for name in ("query", "key"):
        drawn[name] /= np.linalg.norm(drawn[name], axis=-1, keepdims=True)
    drawn["log_decay"] = -random.exponential(0.1, (batch, tokens, heads))
    drawn["log_decay_per_key"] = -random.exponential(0.1, (batch, tokens, heads, width))
    drawn["beta"] = random.random((batch, tokens, heads))
    drawn["d_final_state"] = random.standard_normal((batch, heads, width, width))
    state = drawn.pop("d_final_state").astype("float32")  # the state is never narrower
    return {name: _rounded(x, dtype) for name, x in drawn.items()} | {"d_final_state": state}


def _rounded(x, dtype):
    """`x` as float32, with no more than the digits of `dtype`."""
    single = x.astype("float32")
    if dtype == "bfloat16":
        # To nearest even; what is drawn here is finite.
        bits = single.view("uint32")
        bits = bits + 0x7FFF + ((bits >> 16) & 1)
        single = (bits & 0xFFFF0000).astype("uint32").view("float32")
    return single
