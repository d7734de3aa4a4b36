"""linear_attention and linear_attention_step in keras.ops."""

from typing import Any

import linattn_core
from linattn_core.checks import check_linear_attention, check_linear_attention_step
from linattn_keras.portable._attend import attend
from linattn_keras.portable._describe import describe
from linattn_keras.portable._documentation import documented_as
from linattn_keras.portable._tokens import Tensor, finish, prepare


@documented_as(linattn_core.linear_attention)
def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    update_rule: str = "linear",
    log_decay: Tensor | None = None,
    beta: Tensor | None = None,
    initial_state: Tensor | None = None,
    mask: Tensor | None = None,
    segment_ids: Tensor | None = None,
    scale: Any = None,
    execution_mode: str = "auto",
    chunk_size: int = 64,
) -> tuple[Tensor, Tensor]:
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


@documented_as(linattn_core.linear_attention_step)
def linear_attention_step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: Tensor | None,
    *,
    update_rule: str = "linear",
    log_decay: Tensor | None = None,
    beta: Tensor | None = None,
    scale: Any = None,
) -> tuple[Tensor, Tensor]:
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
