"""Scenarios small enough to compute by hand, whose numbers also stand as text (write.py).

One batch entry, one head, three tokens at most. The numbers are short in binary, and gates are
logarithms of 1/2 and 1/4 as nearly as their dtype has them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from linattn_spec.fixtures import Array, Arrays
from linattn_spec.generate.scenario import Scenario

HALF, QUARTER, NOTHING = -0.6931471805599453, -1.3862943611198906, -np.inf


def _heads(*tokens: Any) -> Array:
    """One row of numbers for each token: `[1, T, 1, D]`."""
    return np.array(tokens, np.float64)[None, :, None, :]


def _gates(*tokens: float) -> Array:
    return np.array(tokens, np.float64)[None, :, None]


QUERY = _heads([1.0, 0.5], [-0.5, 1.0], [0.25, -1.0])
KEY = _heads([1.0, 0.0], [0.5, 0.5], [0.0, -1.0])
POSITIVE_KEY = _heads([1.0, 0.25], [0.5, 0.5], [0.75, 1.0])
VALUE = _heads([2.0], [-1.0], [0.5])
DECAY = _gates(HALF, 0.0, QUARTER)
DECAY_PER_KEY = _heads([HALF, 0.0], [QUARTER, HALF], [0.0, QUARTER])
BETA = _gates(0.5, 1.0, 2.0)
STATE = np.array([[[[1.0], [-2.0]]]])
KEY_STATE = np.array([[[0.5, 1.0]]])
TOKENS = {"query": QUERY, "key": KEY, "value": VALUE}


@dataclass(frozen=True)
class _Tiny:
    name: str
    summary: str
    flags: tuple[str, ...]
    inputs: Arrays
    rule: str = "linear"
    dtype: str = "float64"
    scale: float | None = 1.0
    more: dict[str, Any] = field(default_factory=dict)


_TINY = (
    _Tiny("linear", "Rule linear from zeros.", ("state-gradient-dropped",), {}, scale=None),
    _Tiny("linear-scale", "Any scale is used as it is.", ("scale-replaced",), {}, scale=-0.5),
    _Tiny("linear-state", "Rule linear from a state.", ("state-one-token",),
          {"initial_state": STATE}, dtype="float32"),
    _Tiny("gated", "The state halves, stays, and is divided by four.", ("gate-zero",),
          {"log_decay": DECAY, "initial_state": STATE}, "gated"),
    _Tiny("gated-per-key", "One gate for each row of the state.", ("transposed-state",),
          {"log_decay": DECAY_PER_KEY, "initial_state": STATE}, "gated", "float32"),
    _Tiny("gated-reset", "A gate of minus infinity forgets the state; no NaN comes of it.",
          ("difference-of-cumulative-sums", "zero-times-infinity"),
          {"log_decay": _gates(HALF, NOTHING, HALF), "initial_state": STATE}, "gated"),
    _Tiny("gated-strong", "A gate of -20: its gradient is tiny and right relative to its own size.",
          ("gate-gradient-cancels",),
          {"log_decay": _gates(-20.0, -20.0, -20.0), "initial_state": STATE}, "gated", "float32"),
    _Tiny("delta", "The error is what the key does not read yet.", ("beta-clamped",),
          {"beta": BETA, "initial_state": STATE}, "delta"),
    _Tiny("delta-repeated-key", "The same key three times, beta 1.", ("inverse-explodes",),
          {"key": _heads(*[[1.0, 0.0]] * 3), "beta": _gates(1.0, 1.0, 1.0),
           "initial_state": STATE}, "delta", "float32"),
    _Tiny("gated-delta", "Decay, then the error, then the write, then the read.",
          ("error-before-decay",),
          {"log_decay": DECAY, "beta": BETA, "initial_state": STATE}, "gated_delta"),
    _Tiny("gated-delta-float32", "The same in single precision.", ("error-before-decay",),
          {"log_decay": DECAY, "beta": BETA, "initial_state": STATE}, "gated_delta", "float32"),
    _Tiny("gated-delta-bfloat16", "The same in bfloat16, the state in single precision.",
          ("state-precision",),
          {"log_decay": DECAY, "beta": BETA, "initial_state": STATE}, "gated_delta", "bfloat16"),
    _Tiny("gated-delta-float16", "The same in half precision, the state in single precision.",
          ("state-precision",),
          {"log_decay": DECAY, "beta": BETA, "initial_state": STATE}, "gated_delta", "float16"),
    _Tiny("masked", "The second token is padding: it neither decays nor writes, and reads 0.",
          ("padding-decays",),
          {"log_decay": DECAY, "initial_state": STATE, "mask": np.array([[True, False, True]])},
          "gated"),
    _Tiny("segments", "The third token begins a document, from a state of zeros.",
          ("segment-leak",),
          {"initial_state": STATE, "segment_ids": np.array([[0, 0, 1]], np.int32)}),
    _Tiny("two-calls", "One token, then two, with the state handed on.", ("state-one-token",),
          {"log_decay": DECAY, "beta": BETA, "initial_state": STATE}, "gated_delta",
          more={"parts": (1, 2)}),
)  # fmt: skip


def scenarios() -> Iterator[Scenario]:
    for tiny in _TINY:
        scale = {} if tiny.scale is None else {"scale": tiny.scale}
        yield Scenario(
            id=f"tiny-{tiny.name.removesuffix(f'-{tiny.dtype}')}",
            summary=tiny.summary,
            flags=tiny.flags,
            clause="equations (1)-(5)",
            operator="linear_attention",
            arguments={"update_rule": tiny.rule} | scale,
            inputs=TOKENS | tiny.inputs,
            dtypes=(tiny.dtype,),
            **tiny.more,
        )
    kernel = TOKENS | {"key": POSITIVE_KEY, "query": POSITIVE_KEY[:, ::-1]}
    state = {"initial_state.0": STATE, "initial_state.1": KEY_STATE}
    for name, summary, flag, inputs, arguments in (
        ("causal", "Kernel attention from a state, normalised.", "normalizer-state-dropped",
         state, {"causal": True}),
        ("causal-plain", "Without the normaliser, the state is one matrix.", "state-one-token",
         {"initial_state.0": STATE}, {"causal": True, "use_normalizer": False}),
        ("whole", "Every token reads the whole sequence.", "epsilon-ignored",
         {}, {"causal": False, "epsilon": 0.25}),
        ("masked", "A masked key is not in the denominator.", "masked-keys-in-denominator",
         {"mask": np.array([[True, True, False]])}, {"causal": False}),
    ):  # fmt: skip
        yield Scenario(
            id=f"tiny-kernelized-{name}",
            summary=summary,
            flags=(flag,),
            clause="equations (7)-(8)" if arguments["causal"] else "equations (13)-(14)",
            operator="kernelized_attention",
            arguments={"feature_map": "relu"} | arguments,
            inputs=kernel | inputs,
            dtypes=("float64",),
        )
