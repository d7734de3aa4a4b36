"""linear_attention_step: no time axis, and `state` for `initial_state`."""

from collections.abc import Iterator

import numpy as np

from linattn_spec.fixtures import Array, Case
from linattn_spec.generate.refused.call import BASE, GATES, array, refused, shape_of, valid


def cases() -> Iterator[Case]:
    """linear_attention_step: the same without the time axis, and `state` for initial_state."""

    def spoil(id: str, name: str, x: Array, error: str, text: str) -> Case:
        tokens = {n: x[:, 0] for n, x in valid(*BASE, *GATES).items()}
        inputs = tokens | {"state": array(shape_of("initial_state"))} | {name: x}
        arguments = {"update_rule": "gated_delta"}
        return refused(id, "linear_attention_step", inputs, arguments, error, text)

    text = "query must have shape [B, Hq, Dk], got [2, 1, 6, 4]"
    yield spoil("query-time", "query", array((2, 1, 6, 4)), "ValueError", text)
    text = "key must have shape [B, Hk, Dk], got [2, 3, 3]: Dk is 3, but 4 in query [2, 6, 4]"
    yield spoil("key-dk", "key", array((2, 3, 3)), "ValueError", text)
    text = (
        "log_decay must have shape [B, Hv] or [B, Hv, Dk], got [1, 3]: "
        "B is 1, but 2 in query [2, 6, 4]"
    )
    yield spoil("log-decay-b", "log_decay", array((1, 3)), "ValueError", text)
    text = "beta must have shape [B, Hv] or [B, 1], got [2, 2]: Hv is 2, but 3 in value [2, 3, 5]"
    yield spoil("beta-hv", "beta", array((2, 2)), "ValueError", text)
    text = (
        "state must have shape [B, Hv, Dk, Dv], got [2, 3, 5, 4]: Dk is 5, but 4 in query [2, 6, 4]"
    )
    yield spoil("state-transposed", "state", array((2, 3, 5, 4)), "ValueError", text)
    text = "state must have a floating-point dtype, got int32"
    yield spoil("state-int32", "state", array((2, 3, 4, 5), np.int32), "TypeError", text)
    tokens = {name: x[:, 0] for name, x in valid(*BASE).items()}
    state = {"state": array(shape_of("initial_state"))}
    text = "beta must be given for update_rule 'delta', got None"
    yield refused(
        "delta-lacks-beta", "linear_attention_step", tokens | state, {"update_rule": "delta"},
        "ValueError", text,
    )  # fmt: skip
