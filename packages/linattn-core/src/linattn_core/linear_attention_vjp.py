"""The gradients of linear_attention and linear_attention_step, which NumPy does not derive."""

from typing import Any

import numpy as np

from linattn_core._attend_vjp import attend_vjp
from linattn_core._cotangents import OUTPUT, STATE, STEP_OUTPUT, check_cotangent
from linattn_core._describe import describe
from linattn_core._tokens import Array, prepare
from linattn_core._tokens_vjp import finish_vjp, prepare_vjp
from linattn_core.checks import check_linear_attention, check_linear_attention_step


def linear_attention_vjp(
    query: Array,
    key: Array,
    value: Array,
    *,
    output_cotangent: Array | None = None,
    final_state_cotangent: Array | None = None,
    update_rule: str = "linear",
    log_decay: Array | None = None,
    beta: Array | None = None,
    initial_state: Array | None = None,
    mask: Array | None = None,
    segment_ids: Array | None = None,
    scale: Any = None,
    execution_mode: str = "auto",
    chunk_size: int = 64,
) -> dict[str, Array]:
    """The gradients of sum(output_cotangent * output) + sum(final_state_cotangent * final_state).

    With output and final_state those of `linear_attention` on the same arguments. "recurrent" is
    equations (R1)-(R9) of spec/math/linear_attention.md, and keeps the state before every token;
    "parallel" is the same chunk by chunk, and keeps the state before every chunk. No gradient of
    a log decay is a difference of large sums.

    Args:
        output_cotangent: `[B, T, max(Hq, Hv), Dv]`, any real float dtype; None for zeros. What it
            holds at masked tokens does not count.
        final_state_cotangent: `[B, Hv, Dk, Dv]`, any real float dtype; None for zeros.
        others: as in `linear_attention`.

    Returns:
        By name, the gradient of every float argument that was given, in its shape and dtype.
        "initial_state" is there also when none was given, in the dtype computed in: float64 for
        float64 inputs, float32 for float32 and everything narrower. Each is rounded once.
        Exactly 0 at masked tokens, and for a log decay of -inf.

    Raises:
        ValueError, TypeError: as `linear_attention`, and for a cotangent of another shape.

    References:
        Yang et al., Parallelizing Linear Transformers with the Delta Rule over Sequence Length,
            2024, https://arxiv.org/abs/2406.06484
    """
    check_linear_attention(
        describe,
        query,
        key,
        value,
        update_rule=update_rule,
        log_decay=log_decay,
        beta=beta,
        initial_state=initial_state,
        mask=mask,
        segment_ids=segment_ids,
        scale=scale,
        execution_mode=execution_mode,
        chunk_size=chunk_size,
    )
    batch, tokens, query_heads, key_width = query.shape
    heads, value_width = value.shape[2:]
    output_shape = (batch, tokens, max(query_heads, heads), value_width)
    state_shape = (batch, heads, key_width, value_width)
    check_cotangent(describe, "output_cotangent", output_cotangent, OUTPUT, output_shape)
    check_cotangent(describe, "final_state_cotangent", final_state_cotangent, STATE, state_shape)
    arguments = dict(
        query=query,
        key=key,
        value=value,
        log_decay=log_decay,
        beta=beta,
        mask=mask,
        scale=scale,
    )
    prepared, state = prepare(**arguments, initial_state=initial_state, segment_ids=segment_ids)
    d_output = finish_vjp(output_cotangent, mask, prepared, value_width)
    d_state = np.zeros_like(state)
    if final_state_cotangent is not None:
        d_state = final_state_cotangent.astype(state.dtype)
    gradient, d_state = attend_vjp(prepared, state, execution_mode, chunk_size, d_output, d_state)
    state_dtype = state.dtype if initial_state is None else initial_state.dtype
    return prepare_vjp(gradient, **arguments) | {"initial_state": d_state.astype(state_dtype)}


def linear_attention_step_vjp(
    query: Array,
    key: Array,
    value: Array,
    state: Array | None,
    *,
    output_cotangent: Array | None = None,
    final_state_cotangent: Array | None = None,
    update_rule: str = "linear",
    log_decay: Array | None = None,
    beta: Array | None = None,
    scale: Any = None,
) -> dict[str, Array]:
    """The gradients of `linear_attention_step`: T = 1 without the time axis.

    Args:
        output_cotangent: `[B, max(Hq, Hv), Dv]`, any real float dtype; None for zeros.
        final_state_cotangent: `[B, Hv, Dk, Dv]`, any real float dtype; None for zeros.
        others: as in `linear_attention_step`.

    Returns:
        As `linear_attention_vjp`; the gradient of the state is called "state".

    Raises:
        ValueError, TypeError: as `linear_attention_step`, and for a cotangent of another shape.
    """
    check_linear_attention_step(
        describe,
        query,
        key,
        value,
        state,
        update_rule=update_rule,
        log_decay=log_decay,
        beta=beta,
        scale=scale,
    )
    batch, query_heads, key_width = query.shape
    heads, value_width = value.shape[1:]
    output_shape = (batch, max(query_heads, heads), value_width)
    state_shape = (batch, heads, key_width, value_width)
    check_cotangent(describe, "output_cotangent", output_cotangent, STEP_OUTPUT, output_shape)
    check_cotangent(describe, "final_state_cotangent", final_state_cotangent, STATE, state_shape)
    gradients = linear_attention_vjp(
        query[:, None],
        key[:, None],
        value[:, None],
        output_cotangent=None if output_cotangent is None else output_cotangent[:, None],
        final_state_cotangent=final_state_cotangent,
        update_rule=update_rule,
        log_decay=None if log_decay is None else log_decay[:, None],
        beta=None if beta is None else beta[:, None],
        initial_state=state,
        scale=scale,
        execution_mode="recurrent",
    )
    d_state = gradients.pop("initial_state")
    return {name: x[:, 0] for name, x in gradients.items()} | {"state": d_state}
