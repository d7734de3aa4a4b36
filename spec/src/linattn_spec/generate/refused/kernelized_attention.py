"""kernelized_attention: its own arguments, and a state that is a tuple."""

from collections.abc import Iterator

import numpy as np

from linattn_spec.fixtures import Case
from linattn_spec.generate.refused.call import BASE, array, refused, valid


def cases() -> Iterator[Case]:
    operator = "kernelized_attention"
    matrix, vector = array((2, 3, 4, 5)), array((2, 3, 4))
    both = {"initial_state.0": matrix, "initial_state.1": vector}
    pair = "(key_value_state, key_state) with shapes [B, Hv, Dk, Dv] and [B, Hv, Dk]"
    single = "(key_value_state,) with shape [B, Hv, Dk, Dv]"
    maps = "'elu_plus_one', 'relu', 'identity' or a callable"
    modes = "'auto', 'parallel', 'recurrent'"
    for id, spoilt, arguments, error, text in (
        ("feature-map", {}, {"feature_map": "foo"}, "ValueError",
         f"feature_map must be one of {maps}, got 'foo'"),
        ("execution-mode", {}, {"execution_mode": "foo"}, "ValueError",
         f"execution_mode must be one of {modes}, got 'foo'"),
        ("chunk-size-0", {}, {"chunk_size": 0}, "ValueError",
         "chunk_size must be an integer >= 1, got 0"),
        ("epsilon-negative", {}, {"epsilon": -1.0}, "ValueError",
         "epsilon must be a number >= 0, got -1.0"),
        ("state-not-causal", both, {"causal": False}, "ValueError",
         "initial_state must be None when causal is False, got a tuple of 2"),
        ("state-no-tuple", {"initial_state": matrix}, {"causal": True}, "ValueError",
         f"initial_state must be {pair}, got shape [2, 3, 4, 5]"),
        ("state-tuple-of-1", {"initial_state.0": matrix}, {"causal": True}, "ValueError",
         f"initial_state must be {pair}, got a tuple of 1"),
        ("state-tuple-of-2", both, {"causal": True, "use_normalizer": False}, "ValueError",
         f"initial_state must be {single}, got a tuple of 2"),
        ("state-transposed", both | {"initial_state.0": array((2, 3, 5, 4))}, {"causal": True},
         "ValueError",
         f"initial_state must be {pair}, got [2, 3, 5, 4]: Dk is 5, but 4 in query [2, 7, 6, 4]"),
        ("key-state-dk", both | {"initial_state.1": array((2, 3, 5))}, {"causal": True},
         "ValueError",
         f"initial_state must be {pair}, got [2, 3, 5]: Dk is 5, but 4 in query [2, 7, 6, 4]"),
        ("state-int32", both | {"initial_state.0": matrix.astype(np.int32)}, {"causal": True},
         "TypeError", "initial_state must have a floating-point dtype, got int32"),
        ("key-t", {"key": array((2, 6, 3, 4))}, {}, "ValueError",
         "key must have shape [B, T, Hk, Dk], got [2, 6, 3, 4]: "
         "T is 6, but 7 in query [2, 7, 6, 4]"),
        ("value-rank", {"value": array((2, 7, 15))}, {}, "ValueError",
         "value must have shape [B, T, Hv, Dv], got [2, 7, 15]"),
        ("key-heads", {"key": array((2, 7, 2, 4))}, {}, "ValueError",
         "key must have shape [B, T, Hk, Dk] with Hk dividing Hv, got [2, 7, 2, 4]: "
         "Hk is 2, but Hv is 3 in value [2, 7, 3, 5]"),
        ("query-int32", {"query": array((2, 7, 6, 4), np.int32)}, {}, "TypeError",
         "query must have a floating-point dtype, got int32"),
        ("value-dtype", {"value": array((2, 7, 3, 5), np.float16)}, {}, "TypeError",
         "value must have the dtype of query, float32, got float16"),
        ("mask-t", {"mask": array((2, 6), np.bool_)}, {}, "ValueError",
         "mask must have shape [B, T], got [2, 6]: T is 6, but 7 in query [2, 7, 6, 4]"),
        ("segment-ids-float32", {"segment_ids": array((2, 7))}, {}, "TypeError",
         "segment_ids must have an integer dtype, got float32"),
        ("value-b", {"value": array((3, 7, 3, 5))}, {}, "ValueError",
         "value must have shape [B, T, Hv, Dv], got [3, 7, 3, 5]: "
         "B is 3, but 2 in query [2, 7, 6, 4]"),
        ("key-dk", {"key": array((2, 7, 3, 3))}, {}, "ValueError",
         "key must have shape [B, T, Hk, Dk], got [2, 7, 3, 3]: "
         "Dk is 3, but 4 in query [2, 7, 6, 4]"),
        ("query-heads", {"query": array((2, 7, 4, 4))}, {}, "ValueError",
         "query must have shape [B, T, Hq, Dk] with Hq dividing Hv or Hv dividing Hq, "
         "got [2, 7, 4, 4]: Hq is 4, but Hv is 3 in value [2, 7, 3, 5]"),
        ("state-b", both | {"initial_state.0": array((3, 3, 4, 5))}, {"causal": True},
         "ValueError",
         f"initial_state must be {pair}, got [3, 3, 4, 5]: B is 3, but 2 in query [2, 7, 6, 4]"),
        ("key-state-hv", both | {"initial_state.1": array((2, 6, 4))}, {"causal": True},
         "ValueError",
         f"initial_state must be {pair}, got [2, 6, 4]: Hv is 6, but 3 in value [2, 7, 3, 5]"),
        ("key-state-rank", both | {"initial_state.1": array((2, 3, 4, 1))}, {"causal": True},
         "ValueError", f"initial_state must be {pair}, got [2, 3, 4, 1]"),
        ("key-complex64", {"key": array((2, 7, 3, 4), np.complex64)}, {}, "TypeError",
         "key must have a floating-point dtype, got complex64"),
        ("mask-rank", {"mask": array((7,), np.bool_)}, {}, "ValueError",
         "mask must have shape [B, T], got [7]"),
        ("mask-b", {"mask": array((1, 7), np.bool_)}, {}, "ValueError",
         "mask must have shape [B, T], got [1, 7]: B is 1, but 2 in query [2, 7, 6, 4]"),
        ("segment-ids-t", {"segment_ids": array((2, 8), np.int32)}, {}, "ValueError",
         "segment_ids must have shape [B, T], got [2, 8]: T is 8, but 7 in query [2, 7, 6, 4]"),
        ("feature-map-null", {}, {"feature_map": None}, "ValueError",
         f"feature_map must be one of {maps}, got None"),
        ("causal-number", {}, {"causal": 1}, "TypeError", "causal must be True or False, got 1"),
        ("use-normalizer-text", {}, {"use_normalizer": "yes"}, "TypeError",
         "use_normalizer must be True or False, got 'yes'"),
        ("epsilon-boolean", {}, {"epsilon": True}, "TypeError",
         "epsilon must be a number >= 0, got True"),
        ("heads-before-tokens", {name: x.swapaxes(1, 2) for name, x in valid(*BASE).items()}, {},
         "ValueError", "key must have shape [B, T, Hk, Dk], got [2, 3, 7, 4]: "
         "T is 3, but 6 in query [2, 6, 7, 4]"),
    ):  # fmt: skip
        yield refused(id, operator, valid(*BASE) | spoilt, arguments, error, text)
