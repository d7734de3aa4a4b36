"""linear_attention and linear_attention_step on NumPy arrays."""

from typing import Any

from linattn_core._attend import attend
from linattn_core._describe import describe
from linattn_core._tokens import Array, finish, prepare
from linattn_core.checks import check_linear_attention, check_linear_attention_step


def linear_attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    update_rule: str = "linear",
    log_decay: Array | None = None,
    beta: Array | None = None,
    initial_state: Array | None = None,
    mask: Array | None = None,
    segment_ids: Array | None = None,
    scale: Any = None,
    execution_mode: str = "auto",
    chunk_size: int = 64,
) -> tuple[Array, Array]:
    """Linear attention with an optional decay and delta correction.

    For every head and token t (equations (1)-(5) of spec/math/linear_attention.md):

        S = exp(log_decay[t]) * S                                   gated rules
        S = S + outer(key[t], value[t])                             linear, gated
        S = S + outer(key[t], beta[t] * (value[t] - key[t] @ S))    delta rules
        output[t] = scale * query[t] @ S

    Args:
        query: `[B, T, Hq, Dk]`, any real float dtype. Hq divides Hv or Hv divides Hq.
        key: `[B, T, Hk, Dk]`, the dtype of query. Hk divides Hv. For the delta rules
            beta * |key|^2 <= 2, or the recurrence itself diverges.
        value: `[B, T, Hv, Dv]`, the dtype of query. A head is shared by neighbours: query
            head h of Hq >= Hv reads state head h * Hv // Hq.
        update_rule: "linear", "gated", "delta" or "gated_delta".
        log_decay: `[B, T, Hv]` or `[B, T, Hv, Dk]`, any real float dtype, natural logarithm,
            <= 0; -inf empties the state. For the gated rules, None otherwise.
        beta: `[B, T, Hv]` or `[B, T, 1]`, any real float dtype. For the delta rules, None
            otherwise.
        initial_state: `[B, Hv, Dk, Dv]`, any real float dtype; None for zeros.
        mask: bool `[B, T]`, True for a real token; None for all of them. A masked token leaves
            the state bit for bit as it was, gives output 0, gets gradient 0, and may hold NaN.
        segment_ids: integers `[B, T]`; the state is zero again where the id differs from the
            token before, also at a masked token. initial_state belongs to the first segment.
        scale: a number; None for Dk ** -0.5.
        execution_mode: "recurrent", token by token; "parallel", chunk by chunk ("linear"
            without segment_ids: all chunks at once); "auto", recurrent if T is known to be 1,
            else parallel or what is faster. All give the same results up to rounding.
        chunk_size: an integer >= 1, rounded down to a power of two and to at most 256, or to
            less where that is faster. It does not change the results beyond rounding.

    Returns:
        output `[B, T, max(Hq, Hv), Dv]`, the dtype of value, and final_state
        `[B, Hv, Dk, Dv]`, the dtype computed in: float64 for float64 inputs, float32 for
        float32 and everything narrower. The output is rounded once.

    Raises:
        ValueError: a shape, a gate that the rule lacks or does not take, an unknown name, or a
            chunk_size below 1.
        TypeError: an integer or complex argument, query, key and value of different dtypes, or
            something that is not a tensor.

    References:
        Katharopoulos et al., Transformers are RNNs, 2020, https://arxiv.org/abs/2006.16236
        Yang et al., Gated Linear Attention Transformers with Hardware-Efficient Training, 2023,
            https://arxiv.org/abs/2312.06635
        Yang et al., Parallelizing Linear Transformers with the Delta Rule over Sequence Length,
            2024, https://arxiv.org/abs/2406.06484
        Yang, Kautz, Hatamizadeh, Gated Delta Networks, 2024, https://arxiv.org/abs/2412.06464
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
    tokens, state = prepare(
        query,
        key,
        value,
        log_decay=log_decay,
        beta=beta,
        initial_state=initial_state,
        mask=mask,
        segment_ids=segment_ids,
        scale=scale,
    )
    output, final_state = attend(tokens, state, execution_mode, chunk_size)
    return finish(output, mask, value.dtype), final_state


def linear_attention_step(
    query: Array,
    key: Array,
    value: Array,
    state: Array | None,
    *,
    update_rule: str = "linear",
    log_decay: Array | None = None,
    beta: Array | None = None,
    scale: Any = None,
) -> tuple[Array, Array]:
    """One token of `linear_attention`: T = 1 without the time axis (equation (6)).

    Args:
        query: `[B, Hq, Dk]`; key: `[B, Hk, Dk]`; value: `[B, Hv, Dv]`.
        state: `[B, Hv, Dk, Dv]`, None for zeros.
        update_rule, scale: as in `linear_attention`.
        log_decay: `[B, Hv]` or `[B, Hv, Dk]`; beta: `[B, Hv]` or `[B, 1]`.

    Returns:
        output `[B, max(Hq, Hv), Dv]`, the dtype of value, and the state after the token, in
        the dtype computed in (float64 for float64 inputs, else float32).

    Raises:
        ValueError, TypeError: as `linear_attention`.
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
    tokens, initial_state = prepare(
        query[:, None],
        key[:, None],
        value[:, None],
        log_decay=None if log_decay is None else log_decay[:, None],
        beta=None if beta is None else beta[:, None],
        initial_state=state,
        mask=None,
        segment_ids=None,
        scale=scale,
    )
    output, final_state = attend(tokens, initial_state, "recurrent", 1)
    return finish(output, None, value.dtype)[:, 0], final_state
