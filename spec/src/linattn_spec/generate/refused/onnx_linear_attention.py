"""onnx_linear_attention: packed shapes, and what the operator's text forbids."""

from collections.abc import Iterator

import numpy as np

from linattn_spec.fixtures import Case
from linattn_spec.generate.refused.call import array, refused


def cases() -> Iterator[Case]:
    operator = "onnx_linear_attention"
    packed = {
        "query": array((2, 7, 24)),
        "key": array((2, 7, 12)),
        "value": array((2, 7, 15)),
        "past_state": array((2, 3, 4, 5)),
        "decay": array((2, 7, 3)),
        "beta": array((2, 7, 3)),
    }
    heads = {"q_num_heads": 6, "kv_num_heads": 3}
    wanted = "q_num_heads must be a positive multiple of kv_num_heads, got"
    decay = "decay must have shape [B, T, kv_num_heads] or [B, T, kv_num_heads * Dk]"
    beta = "beta must have shape [B, T, kv_num_heads] or [B, T, 1]"
    dtypes = "float16, bfloat16 or float32"
    for id, spoilt, arguments, error, text in (
        ("heads-ratio", {}, {"q_num_heads": 4}, "ValueError",
         f"{wanted} q_num_heads = 4 and kv_num_heads = 3"),
        ("heads-0", {}, {"kv_num_heads": 0}, "ValueError",
         f"{wanted} q_num_heads = 6 and kv_num_heads = 0"),
        ("query-rank", {"query": array((2, 7, 6, 4))}, {}, "ValueError",
         "query must have shape [B, T, q_num_heads * Dk], got [2, 7, 6, 4]"),
        ("query-width", {"query": array((2, 7, 25))}, {}, "ValueError",
         "query must have shape [B, T, q_num_heads * Dk], got [2, 7, 25]: q_num_heads is 6"),
        ("key-dk", {"key": array((2, 7, 9))}, {}, "ValueError",
         "key must have shape [B, T, kv_num_heads * Dk], got [2, 7, 9]: "
         "Dk is 3, but 4 in query [2, 7, 24]"),
        ("decay-width", {"decay": array((2, 7, 6))}, {}, "ValueError",
         f"{decay}, got [2, 7, 6]"),
        ("beta-b", {"beta": array((1, 7, 3))}, {}, "ValueError",
         f"{beta}, got [1, 7, 3]: B is 1, but 2 in query [2, 7, 24]"),
        ("past-state-transposed", {"past_state": array((2, 3, 5, 4))}, {}, "ValueError",
         "past_state must have shape [B, kv_num_heads, Dk, Dv], got [2, 3, 5, 4]: "
         "Dk is 5, but 4 in query [2, 7, 24]"),
        ("past-state-int32", {"past_state": array((2, 3, 4, 5), np.int32)}, {}, "TypeError",
         f"past_state must have dtype {dtypes}, got int32"),
        ("query-int32", {"query": array((2, 7, 24), np.int32)}, {}, "TypeError",
         f"query must have dtype {dtypes}, got int32"),
        ("decay-dtype", {"decay": array((2, 7, 3), np.float16)}, {}, "TypeError",
         "decay must have the dtype of query, float32, got float16"),
        ("update-rule", {}, {"update_rule": "foo"}, "ValueError",
         "update_rule must be one of 'linear', 'gated', 'delta', 'gated_delta', got 'foo'"),
        ("gated-has-beta", {}, {"update_rule": "gated"}, "ValueError",
         "beta must be None for update_rule 'gated', got shape [2, 7, 3]"),
        ("scale-none", {}, {"scale": None}, "TypeError", "scale must be a number, got None"),
        ("chunk-size-0", {}, {"chunk_size": 0}, "ValueError",
         "chunk_size must be an integer >= 1, got 0"),
        ("key-b", {"key": array((3, 7, 12))}, {}, "ValueError",
         "key must have shape [B, T, kv_num_heads * Dk], got [3, 7, 12]: "
         "B is 3, but 2 in query [2, 7, 24]"),
        ("value-t", {"value": array((2, 6, 15))}, {}, "ValueError",
         "value must have shape [B, T, kv_num_heads * Dv], got [2, 6, 15]: "
         "T is 6, but 7 in query [2, 7, 24]"),
        ("value-width", {"value": array((2, 7, 16))}, {}, "ValueError",
         "value must have shape [B, T, kv_num_heads * Dv], got [2, 7, 16]: kv_num_heads is 3"),
        ("decay-b", {"decay": array((1, 7, 12))}, {}, "ValueError",
         f"{decay}, got [1, 7, 12]: B is 1, but 2 in query [2, 7, 24]"),
        ("beta-width", {"beta": array((2, 7, 2))}, {}, "ValueError",
         f"{beta}, got [2, 7, 2]"),
        ("past-state-dv", {"past_state": array((2, 3, 4, 4))}, {}, "ValueError",
         "past_state must have shape [B, kv_num_heads, Dk, Dv], got [2, 3, 4, 4]: "
         "Dv is 4, but 5 in value [2, 7, 15]"),
        ("past-state-rank", {"past_state": array((2, 3, 20))}, {}, "ValueError",
         "past_state must have shape [B, kv_num_heads, Dk, Dv], got [2, 3, 20]"),
        ("key-complex64", {"key": array((2, 7, 12), np.complex64)}, {}, "TypeError",
         "key must have the dtype of query, float32, got complex64"),
        ("value-dtype", {"value": array((2, 7, 15), np.float16)}, {}, "TypeError",
         "value must have the dtype of query, float32, got float16"),
        ("heads-fraction", {}, {"q_num_heads": 6.5}, "ValueError",
         f"{wanted} q_num_heads = 6.5 and kv_num_heads = 3"),
        ("heads-negative", {}, {"q_num_heads": -6, "kv_num_heads": -3}, "ValueError",
         f"{wanted} q_num_heads = -6 and kv_num_heads = -3"),
        ("key-heads-of-query", {"key": array((2, 7, 24))}, {}, "ValueError",
         "key must have shape [B, T, kv_num_heads * Dk], got [2, 7, 24]: "
         "Dk is 8, but 4 in query [2, 7, 24]"),
        ("linear-has-decay", {}, {"update_rule": "linear"}, "ValueError",
         "decay must be None for update_rule 'linear', got shape [2, 7, 3]"),
        ("delta-has-decay", {}, {"update_rule": "delta"}, "ValueError",
         "decay must be None for update_rule 'delta', got shape [2, 7, 3]"),
        ("scale-text", {}, {"scale": "1"}, "TypeError", "scale must be a number, got '1'"),
        ("chunk-size-negative", {}, {"chunk_size": -4}, "ValueError",
         "chunk_size must be an integer >= 1, got -4"),
        ("past-state-float64", {"past_state": array((2, 3, 4, 5), np.float64)}, {}, "TypeError",
         f"past_state must have dtype {dtypes}, got float64"),
        ("beta-float64", {"beta": array((2, 7, 3), np.float64)}, {}, "TypeError",
         "beta must have the dtype of query, float32, got float64"),
    ):  # fmt: skip
        yield refused(id, operator, packed | spoilt, heads | arguments, error, text)
    for rule, name in (("gated", "decay"), ("delta", "beta")):
        inputs = {n: x for n, x in packed.items() if n not in ("decay", "beta")}
        text = f"{name} must be given for update_rule '{rule}', got None"
        yield refused(
            f"{rule}-lacks-{name}",
            operator,
            inputs,
            heads | {"update_rule": rule},
            "ValueError",
            text,
        )
    wide = {name: x.astype(np.float64) for name, x in packed.items()}
    text = f"query must have dtype {dtypes}, got float64"
    yield refused("float64", operator, wide, heads, "TypeError", text, dtype="float64")
