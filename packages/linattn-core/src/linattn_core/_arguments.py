"""What the checks in checks.py are made of: one tensor, one property, one error text."""

from collections.abc import Callable
from typing import Any

from linattn_core.dtypes import is_floating, is_integer

Shape = tuple[int | None, ...]
Describe = Callable[[Any], tuple[Shape, str] | None]
# Axis letter -> its size, and the name and shape of the argument that it was first seen in.
Axes = dict[str, tuple[int, str, Shape]]


def check_gates(
    describe: Describe, update_rule: str, decay_name: str, log_decay: Any, beta: Any
) -> None:
    for name, gate, needed in (
        (decay_name, log_decay, update_rule in ("gated", "gated_delta")),
        ("beta", beta, update_rule in ("delta", "gated_delta")),
    ):
        if needed and gate is None:
            raise ValueError(f"{name} must be given for update_rule '{update_rule}', got None")
        if not needed and gate is not None:
            raise ValueError(
                f"{name} must be None for update_rule '{update_rule}', got {what(describe, gate)}"
            )


def check_heads(
    describe: Describe, query: Any, key: Any, value: Any, lead: tuple[str, ...]
) -> Axes:
    """Checks query, key and value against each other; returns the sizes that they give."""
    check_floating(describe, "query", query)
    dtype = tensor(describe, "query", query)[1]
    for name, x in (("key", key), ("value", value)):
        check_floating(describe, name, x)
        check_same_dtype(describe, name, x, dtype)
    axes: Axes = {}
    shapes = {}
    for name, x, tail in (
        ("query", query, ("Hq", "Dk")),
        ("key", key, ("Hk", "Dk")),
        ("value", value, ("Hv", "Dv")),
    ):
        shapes[name] = tensor(describe, name, x)[0]
        bind(name, shapes[name], lead + tail, axes)
        for axis in (*tail[:1], "Dk"):
            if axis in axes and axes[axis][0] < 1:
                raise ValueError(
                    f"{name} must have shape {spell(lead + tail)} with {axis} >= 1, "
                    f"got {sizes(shapes[name])}"
                )
    if "Hv" not in axes:
        return axes
    value_heads = axes["Hv"][0]
    if "Hk" in axes and value_heads % axes["Hk"][0]:
        raise ValueError(
            f"key must have shape {spell((*lead, 'Hk', 'Dk'))} with Hk dividing Hv, "
            f"got {sizes(shapes['key'])}: Hk is {axes['Hk'][0]}, "
            f"but Hv is {value_heads} in value {sizes(shapes['value'])}"
        )
    if "Hq" in axes:
        query_heads = axes["Hq"][0]
        if query_heads % value_heads and value_heads % query_heads:
            raise ValueError(
                f"query must have shape {spell((*lead, 'Hq', 'Dk'))} with Hq dividing Hv or "
                f"Hv dividing Hq, got {sizes(shapes['query'])}: "
                f"Hq is {query_heads}, but Hv is {value_heads} in value {sizes(shapes['value'])}"
            )
    return axes


def check_log_decay(describe: Describe, log_decay: Any, axes: Axes, lead: tuple[str, ...]) -> None:
    if log_decay is None:
        return
    shape = check_floating(describe, "log_decay", log_decay)
    per_head, per_key = (*lead, "Hv"), (*lead, "Hv", "Dk")
    letters = f"{spell(per_head)} or {spell(per_key)}"
    bind("log_decay", shape, per_key if len(shape) == len(per_key) else per_head, axes, letters)


def check_beta(describe: Describe, beta: Any, axes: Axes, lead: tuple[str, ...]) -> None:
    if beta is None:
        return
    shape = check_floating(describe, "beta", beta)
    letters = f"{spell((*lead, 'Hv'))} or {spell((*lead, '1'))}"
    if len(shape) == len(lead) + 1 and shape[-1] == 1:
        bind("beta", shape[:-1], lead, axes, letters, given=shape)
    else:
        bind("beta", shape, (*lead, "Hv"), axes, letters)


def check_state(describe: Describe, name: str, state: Any, axes: Axes) -> None:
    if state is None:
        return
    if describe(state) is None:
        raise ValueError(f"{name} must have shape [B, Hv, Dk, Dv], got {what(describe, state)}")
    shape = check_floating(describe, name, state)
    bind(name, shape, ("B", "Hv", "Dk", "Dv"), axes)


def check_kernel_state(
    describe: Describe, name: str, state: Any, axes: Axes, use_normalizer: bool
) -> None:
    parts: tuple[tuple[str, ...], ...]
    if use_normalizer:
        parts = (("B", "Hv", "Dk", "Dv"), ("B", "Hv", "Dk"))
        wanted = "(key_value_state, key_state) with shapes [B, Hv, Dk, Dv] and [B, Hv, Dk]"
    else:
        parts = (("B", "Hv", "Dk", "Dv"),)
        wanted = "(key_value_state,) with shape [B, Hv, Dk, Dv]"
    if not isinstance(state, (tuple, list)) or len(state) != len(parts):
        raise ValueError(f"{name} must be {wanted}, got {what(describe, state)}")
    for part, letters in zip(state, parts, strict=True):
        if describe(part) is None:
            raise ValueError(f"{name} must be {wanted}, got {what(describe, state)}")
        shape = check_floating(describe, name, part)
        bind(name, shape, letters, axes, wanted, verb="be")


def check_mask(describe: Describe, mask: Any, axes: Axes) -> None:
    if mask is None:
        return
    shape, dtype = tensor(describe, "mask", mask)
    if dtype != "bool":
        raise TypeError(f"mask must have dtype bool, got {dtype}")
    bind("mask", shape, ("B", "T"), axes)


def check_segment_ids(describe: Describe, segment_ids: Any, axes: Axes) -> None:
    if segment_ids is None:
        return
    shape, dtype = tensor(describe, "segment_ids", segment_ids)
    if not is_integer(dtype):
        raise TypeError(f"segment_ids must have an integer dtype, got {dtype}")
    bind("segment_ids", shape, ("B", "T"), axes)


def tensor(describe: Describe, name: str, x: Any) -> tuple[Shape, str]:
    described = describe(x)
    if described is None:
        raise TypeError(f"{name} must be a tensor, got {what(describe, x)}")
    return described


def check_floating(describe: Describe, name: str, x: Any) -> Shape:
    shape, dtype = tensor(describe, name, x)
    if not is_floating(dtype):
        raise TypeError(f"{name} must have a floating-point dtype, got {dtype}")
    return shape


def check_same_dtype(describe: Describe, name: str, x: Any, dtype: str) -> None:
    given = tensor(describe, name, x)[1]
    if given != dtype:
        raise TypeError(f"{name} must have the dtype of query, {dtype}, got {given}")


def bind(
    name: str,
    shape: Shape,
    letters: tuple[str, ...],
    axes: Axes,
    wanted: str = "",
    *,
    given: Shape | None = None,
    verb: str = "have shape",
) -> None:
    """Gives each letter the size of its axis, or raises where it has another size already."""
    given = shape if given is None else given
    wanted = wanted or spell(letters)
    if len(shape) != len(letters):
        raise ValueError(f"{name} must {verb} {wanted}, got {sizes(given)}")
    for letter, size in zip(letters, shape, strict=True):
        if size is None:
            continue
        known, where, where_shape = axes.setdefault(letter, (size, name, given))
        if size != known:
            raise ValueError(
                f"{name} must {verb} {wanted}, got {sizes(given)}: "
                f"{letter} is {size}, but {known} in {where} {sizes(where_shape)}"
            )


def bind_packed(
    describe: Describe, name: str, x: Any, heads_name: str, heads: int, width: str, axes: Axes
) -> None:
    shape = tensor(describe, name, x)[0]
    letters = f"[B, T, {heads_name} * {width}]"
    if len(shape) != 3:
        raise ValueError(f"{name} must have shape {letters}, got {sizes(shape)}")
    packed = shape[2]
    if packed is not None and (packed % heads or packed < heads):
        raise ValueError(
            f"{name} must have shape {letters}, got {sizes(shape)}: {heads_name} is {heads}"
        )
    size = None if packed is None else packed // heads
    bind(name, (*shape[:2], size), ("B", "T", width), axes, letters, given=shape)


def what(describe: Describe, x: Any) -> str:
    """What was given, in a few words: a shape, a tuple's length, or a type."""
    described = describe(x)
    if described is not None:
        return f"shape {sizes(described[0])}"
    if isinstance(x, (tuple, list)):
        return f"a {type(x).__name__} of {len(x)}"
    return "None" if x is None else type(x).__name__


def spell(letters: tuple[str, ...]) -> str:
    return f"[{', '.join(letters)}]"


def sizes(shape: Shape) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
