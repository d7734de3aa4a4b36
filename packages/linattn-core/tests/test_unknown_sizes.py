"""The checks with sizes that are not known yet, as a framework that traces or exports has them."""

from dataclasses import dataclass
from functools import partial

import pytest
from refusal import refuses

from linattn_core.checks import (
    check_kernelized_attention,
    check_linear_attention,
    check_linear_attention_step,
    check_mapped,
    check_onnx_linear_attention,
)


@dataclass(frozen=True)
class Spec:
    """A tensor of which some sizes are not known yet."""

    shape: tuple
    dtype: str = "float32"


def describe(x):
    return (x.shape, x.dtype) if isinstance(x, Spec) else None


UNKNOWN = {
    "query": Spec((None, None, 6, 4)),
    "key": Spec((None, None, 3, 4)),
    "value": Spec((None, None, 3, 5)),
    "log_decay": Spec((None, None, 3)),
    "beta": Spec((None, None, 3)),
    "initial_state": Spec((None, 3, 4, 5)),
    "mask": Spec((None, None), "bool"),
    "segment_ids": Spec((None, None), "int32"),
}
DEFAULTS = dict(update_rule="gated_delta", scale=None, execution_mode="auto", chunk_size=64)


def check(**changes):
    arguments = UNKNOWN | DEFAULTS | changes
    tokens = [arguments.pop(name) for name in ("query", "key", "value")]
    return check_linear_attention(describe, *tokens, **arguments)


def test_sizes_that_are_not_known_agree_with_every_size():
    assert check() is None
    assert check(query=Spec((2, 7, 6, 4)), mask=Spec((2, 7), "bool")) is None
    assert check(query=Spec((None, None, None, None))) is None
    assert check(value=Spec((None, None, None, None)), initial_state=None) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"query": Spec((None, 7, 6, 4)), "mask": Spec((None, 8), "bool")},
            "mask must have shape [B, T], got [?, 8]: T is 8, but 7 in query [?, 7, 6, 4]",
        ),
        (
            {"beta": Spec((None, None, 4))},
            "beta must have shape [B, T, Hv] or [B, T, 1], got [?, ?, 4]: "
            "Hv is 4, but 3 in value [?, ?, 3, 5]",
        ),
        (
            {"query": Spec((None, None, None, 4)), "initial_state": Spec((5, 3, 7, 5))},
            "initial_state must have shape [B, Hv, Dk, Dv], got [5, 3, 7, 5]: "
            "Dk is 7, but 4 in query [?, ?, ?, 4]",
        ),
        (
            {"beta": Spec((5, None, 1)), "mask": Spec((6, None), "bool")},
            "mask must have shape [B, T], got [6, ?]: B is 6, but 5 in beta [5, ?, 1]",
        ),
    ],
)
def test_sizes_that_are_known_are_held_against_each_other(changes, message):
    with refuses(ValueError, message):
        check(**changes)


def test_the_other_operators_take_unknown_sizes_too():
    token = [Spec((None, 6, 4)), Spec((None, 3, 4)), Spec((None, 3, 5)), Spec((None, 3, 4, 5))]
    gates = dict(log_decay=Spec((None, 3, 4)), beta=Spec((None, 1)))
    arguments = dict(update_rule="gated_delta", scale=None)
    assert check_linear_attention_step(describe, *token, **gates, **arguments) is None

    tokens = [UNKNOWN[name] for name in ("query", "key", "value")]
    kernel_arguments = dict(
        causal=True,
        use_normalizer=True,
        epsilon=1e-6,
        execution_mode="auto",
        chunk_size=64,
        mask=UNKNOWN["mask"],
        segment_ids=UNKNOWN["segment_ids"],
        initial_state=(Spec((None, 3, 4, 5)), Spec((2, 3, 4))),
    )
    check_kernel = partial(check_kernelized_attention, describe, *tokens, **kernel_arguments)
    assert check_kernel(feature_map="relu") is None
    with refuses(
        ValueError,
        "initial_state must be (key_value_state,) with shape [B, Hv, Dk, Dv], got a tuple of 2",
    ):
        check_kernel(feature_map="relu", use_normalizer=False)
    mapped = Spec((None, None, 6, 8)), Spec((None, None, 3, 8))
    state = (Spec((None, 3, 8, 5)), Spec((None, 3, 8)))
    assert check_mapped(describe, *tokens[:2], *mapped, state) is None
    assert check_mapped(describe, *tokens[:2], *mapped, None) is None

    packed = [Spec((None, None, 24)), Spec((None, None, 12)), Spec((None, None, None))]
    others = [Spec((None, 3, 4, 5)), Spec((None, None, 12)), Spec((None, None, 3))]
    heads = dict(q_num_heads=6, kv_num_heads=3, update_rule="gated_delta")
    options = dict(scale=0.0, chunk_size=64)
    assert check_onnx_linear_attention(describe, *packed, *others, **heads, **options) is None
    others[1] = Spec((None, None, None))
    assert check_onnx_linear_attention(describe, *packed, *others, **heads, **options) is None
