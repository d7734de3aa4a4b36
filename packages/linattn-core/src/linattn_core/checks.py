"""Every operator's argument checks, and the text of every error.

A package hands over its arguments as they came, and `describe`, which returns the shape
(None for a size that is not known yet) and the dtype's name of one of its framework's tensors,
or None for anything else. Everything is checked here, before anything is computed, so that the
same mistake raises the same class with the same text in every package.
"""

from typing import Any

from linattn_core._arguments import (
    Axes,
    Describe,
    bind,
    bind_packed,
    check_beta,
    check_floating,
    check_gates,
    check_heads,
    check_kernel_state,
    check_log_decay,
    check_mask,
    check_same_dtype,
    check_segment_ids,
    check_state,
    tensor,
    what,
)
from linattn_core._options import (
    check_choice,
    check_chunk_size,
    check_epsilon,
    check_flag,
    check_known_scale,
    check_scale,
    heads_error,
    is_integer_argument,
    spell_choices,
)
from linattn_core.chunks import EXECUTION_MODES, UPDATE_RULES

__all__ = [
    "check_epsilon",
    "check_feature_map_input",
    "check_kernelized_attention",
    "check_linear_attention",
    "check_linear_attention_step",
    "check_mapped",
    "check_onnx_linear_attention",
]

FEATURE_MAPS = ("elu_plus_one", "relu", "identity")
ONNX_DTYPES = ("float16", "bfloat16", "float32")


def check_linear_attention(
    describe: Describe,
    query: Any,
    key: Any,
    value: Any,
    *,
    update_rule: Any,
    log_decay: Any,
    beta: Any,
    initial_state: Any,
    mask: Any,
    segment_ids: Any,
    scale: Any,
    execution_mode: Any,
    chunk_size: Any,
) -> None:
    """Raises ValueError or TypeError unless `linear_attention` takes these arguments."""
    check_choice("update_rule", update_rule, UPDATE_RULES)
    check_choice("execution_mode", execution_mode, EXECUTION_MODES)
    check_chunk_size(chunk_size)
    check_scale(scale)
    check_gates(describe, update_rule, "log_decay", log_decay, beta)
    axes = check_heads(describe, query, key, value, ("B", "T"))
    check_log_decay(describe, log_decay, axes, ("B", "T"))
    check_beta(describe, beta, axes, ("B", "T"))
    check_state(describe, "initial_state", initial_state, axes)
    check_mask(describe, mask, axes)
    check_segment_ids(describe, segment_ids, axes)


def check_linear_attention_step(
    describe: Describe,
    query: Any,
    key: Any,
    value: Any,
    state: Any,
    *,
    update_rule: Any,
    log_decay: Any,
    beta: Any,
    scale: Any,
) -> None:
    """Raises ValueError or TypeError unless `linear_attention_step` takes these arguments."""
    check_choice("update_rule", update_rule, UPDATE_RULES)
    check_scale(scale)
    check_gates(describe, update_rule, "log_decay", log_decay, beta)
    axes = check_heads(describe, query, key, value, ("B",))
    check_log_decay(describe, log_decay, axes, ("B",))
    check_beta(describe, beta, axes, ("B",))
    check_state(describe, "state", state, axes)


def check_kernelized_attention(
    describe: Describe,
    query: Any,
    key: Any,
    value: Any,
    *,
    feature_map: Any,
    causal: Any,
    use_normalizer: Any,
    epsilon: Any,
    mask: Any,
    segment_ids: Any,
    initial_state: Any,
    execution_mode: Any,
    chunk_size: Any,
) -> None:
    """Raises ValueError or TypeError unless `kernelized_attention` takes these arguments."""
    if not callable(feature_map):
        check_choice("feature_map", feature_map, FEATURE_MAPS, or_else=" or a callable")
    check_choice("execution_mode", execution_mode, EXECUTION_MODES)
    check_chunk_size(chunk_size)
    check_flag("causal", causal)
    check_flag("use_normalizer", use_normalizer)
    check_epsilon(epsilon)
    axes = check_heads(describe, query, key, value, ("B", "T"))
    check_mask(describe, mask, axes)
    check_segment_ids(describe, segment_ids, axes)
    if not causal:
        if initial_state is not None:
            raise ValueError(
                "initial_state must be None when causal is False, "
                f"got {what(describe, initial_state)}"
            )
    elif initial_state is not None:
        if callable(feature_map):
            axes.pop("Dk", None)  # the map may change it: check_mapped sees the result
        check_kernel_state(describe, "initial_state", initial_state, axes, use_normalizer)


def check_mapped(
    describe: Describe, query: Any, key: Any, mapped_query: Any, mapped_key: Any, state: Any
) -> None:
    """Raises ValueError or TypeError unless a callable feature map kept all but the last axis.

    The last axes of both, Dk from here on, and of the initial state must agree.
    """
    axes: Axes = {}
    for name, x, letters in (("query", query, "Hq"), ("key", key, "Hk")):
        bind(name, tensor(describe, name, x)[0][:-1], ("B", "T", letters), axes)
    for name, mapped, letters in (
        ("feature_map(query)", mapped_query, "Hq"),
        ("feature_map(key)", mapped_key, "Hk"),
    ):
        shape = check_floating(describe, name, mapped)
        bind(name, shape, ("B", "T", letters, "Dk"), axes)
    if state is not None:
        shape = tensor(describe, "initial_state", state[0])[0]
        bind("initial_state", shape, ("B", "Hv", "Dk", "Dv"), axes)


def check_onnx_linear_attention(
    describe: Describe,
    query: Any,
    key: Any,
    value: Any,
    past_state: Any,
    decay: Any,
    beta: Any,
    *,
    q_num_heads: Any,
    kv_num_heads: Any,
    update_rule: Any,
    scale: Any,
    chunk_size: Any,
) -> None:
    """Raises ValueError or TypeError unless `onnx_linear_attention` takes these arguments."""
    check_choice("update_rule", update_rule, UPDATE_RULES)
    check_chunk_size(chunk_size)
    check_known_scale(scale)
    for heads in (q_num_heads, kv_num_heads):
        if not is_integer_argument(heads) or heads < 1:
            raise heads_error(q_num_heads, kv_num_heads)
    if q_num_heads % kv_num_heads:
        raise heads_error(q_num_heads, kv_num_heads)
    check_gates(describe, update_rule, "decay", decay, beta)

    dtype = tensor(describe, "query", query)[1]
    if dtype not in ONNX_DTYPES:
        raise TypeError(f"query must have dtype {spell_choices(ONNX_DTYPES)}, got {dtype}")
    for name, x in (("key", key), ("value", value), ("decay", decay), ("beta", beta)):
        if x is not None:
            check_same_dtype(describe, name, x, dtype)
    axes: Axes = {}
    bind_packed(describe, "query", query, "q_num_heads", q_num_heads, "Dk", axes)
    bind_packed(describe, "key", key, "kv_num_heads", kv_num_heads, "Dk", axes)
    bind_packed(describe, "value", value, "kv_num_heads", kv_num_heads, "Dv", axes)
    axes["kv_num_heads"] = (kv_num_heads, "kv_num_heads", (kv_num_heads,))
    if decay is not None:
        letters = "[B, T, kv_num_heads] or [B, T, kv_num_heads * Dk]"
        shape = tensor(describe, "decay", decay)[0]
        if len(shape) == 3 and "Dk" in axes and shape[2] == kv_num_heads * axes["Dk"][0]:
            bind("decay", shape[:2], ("B", "T"), axes, letters, given=shape)
        else:
            bind("decay", shape, ("B", "T", "kv_num_heads"), axes, letters)
    if beta is not None:
        shape = tensor(describe, "beta", beta)[0]
        letters = "[B, T, kv_num_heads] or [B, T, 1]"
        if len(shape) == 3 and shape[2] == 1:
            bind("beta", shape[:2], ("B", "T"), axes, letters, given=shape)
        else:
            bind("beta", shape, ("B", "T", "kv_num_heads"), axes, letters)
    if past_state is not None:
        shape, dtype = tensor(describe, "past_state", past_state)
        if dtype not in ONNX_DTYPES:
            raise TypeError(f"past_state must have dtype {spell_choices(ONNX_DTYPES)}, got {dtype}")
        bind("past_state", shape, ("B", "kv_num_heads", "Dk", "Dv"), axes)


def check_feature_map_input(describe: Describe, x: Any, axes: str = "") -> None:
    """Raises TypeError unless `x` is a floating-point tensor, ValueError if it needs an axis."""
    shape = check_floating(describe, "x", x)
    if axes and not shape:
        raise ValueError(f"x must have shape {axes}, got []")
