"""linear_attention_step: no time axis, and `state` for `initial_state`."""

from collections.abc import Iterator

import numpy as np

from linattn_spec.fixtures import Case
from linattn_spec.generate.refused.call import BASE, GATES, array, refused, shape_of, valid


def cases() -> Iterator[Case]:
    operator = "linear_attention_step"
    state = {"state": array(shape_of("initial_state"))}
    tokens = {name: x[:, 0] for name, x in valid(*BASE).items()} | state
    gates = {name: x[:, 0] for name, x in valid(*GATES).items()}
    decay = "log_decay must have shape [B, Hv] or [B, Hv, Dk]"
    beta = "beta must have shape [B, Hv] or [B, 1]"
    rules = "'linear', 'gated', 'delta', 'gated_delta'"
    for id, spoilt, error, text in (
        ("query-time", {"query": array((2, 1, 6, 4))}, "ValueError",
         "query must have shape [B, Hq, Dk], got [2, 1, 6, 4]"),
        ("key-dk", {"key": array((2, 3, 3))}, "ValueError",
         "key must have shape [B, Hk, Dk], got [2, 3, 3]: Dk is 3, but 4 in query [2, 6, 4]"),
        ("log-decay-b", {"log_decay": array((1, 3))}, "ValueError",
         f"{decay}, got [1, 3]: B is 1, but 2 in query [2, 6, 4]"),
        ("beta-hv", {"beta": array((2, 2))}, "ValueError",
         f"{beta}, got [2, 2]: Hv is 2, but 3 in value [2, 3, 5]"),
        ("state-transposed", {"state": array((2, 3, 5, 4))}, "ValueError",
         "state must have shape [B, Hv, Dk, Dv], got [2, 3, 5, 4]: "
         "Dk is 5, but 4 in query [2, 6, 4]"),
        ("state-int32", {"state": array((2, 3, 4, 5), np.int32)}, "TypeError",
         "state must have a floating-point dtype, got int32"),
        ("value-b", {"value": array((3, 3, 5))}, "ValueError",
         "value must have shape [B, Hv, Dv], got [3, 3, 5]: B is 3, but 2 in query [2, 6, 4]"),
        ("key-heads", {"key": array((2, 2, 4))}, "ValueError",
         "key must have shape [B, Hk, Dk] with Hk dividing Hv, got [2, 2, 4]: "
         "Hk is 2, but Hv is 3 in value [2, 3, 5]"),
        ("query-heads", {"query": array((2, 4, 4))}, "ValueError",
         "query must have shape [B, Hq, Dk] with Hq dividing Hv or Hv dividing Hq, "
         "got [2, 4, 4]: Hq is 4, but Hv is 3 in value [2, 3, 5]"),
        ("log-decay-dk", {"log_decay": array((2, 3, 5))}, "ValueError",
         f"{decay}, got [2, 3, 5]: Dk is 5, but 4 in query [2, 6, 4]"),
        ("beta-b", {"beta": array((1, 3))}, "ValueError",
         f"{beta}, got [1, 3]: B is 1, but 2 in query [2, 6, 4]"),
        ("state-hv", {"state": array((2, 6, 4, 5))}, "ValueError",
         "state must have shape [B, Hv, Dk, Dv], got [2, 6, 4, 5]: "
         "Hv is 6, but 3 in value [2, 3, 5]"),
        ("state-rank", {"state": array((3, 4, 5))}, "ValueError",
         "state must have shape [B, Hv, Dk, Dv], got [3, 4, 5]"),
        ("query-complex64", {"query": array((2, 6, 4), np.complex64)}, "TypeError",
         "query must have a floating-point dtype, got complex64"),
        ("value-dtype", {"value": array((2, 3, 5), np.float16)}, "TypeError",
         "value must have the dtype of query, float32, got float16"),
    ):  # fmt: skip
        inputs = tokens | gates | spoilt
        yield refused(id, operator, inputs, {"update_rule": "gated_delta"}, error, text)
    for id, rule, given, text in (
        ("delta-lacks-beta", "delta", (), "beta must be given for update_rule 'delta', got None"),
        ("linear-has-log-decay", "linear", ("log_decay",),
         "log_decay must be None for update_rule 'linear', got shape [2, 3]"),
        ("linear-has-beta", "linear", ("beta",),
         "beta must be None for update_rule 'linear', got shape [2, 3]"),
        ("gated-lacks-log-decay", "gated", (),
         "log_decay must be given for update_rule 'gated', got None"),
        ("update-rule", "foo", GATES, f"update_rule must be one of {rules}, got 'foo'"),
    ):  # fmt: skip
        inputs = tokens | {name: gates[name] for name in given}
        yield refused(id, operator, inputs, {"update_rule": rule}, "ValueError", text)
    yield refused(
        "scale", operator, tokens, {"scale": "1"}, "TypeError",
        "scale must be a number or None, got '1'",
    )  # fmt: skip
