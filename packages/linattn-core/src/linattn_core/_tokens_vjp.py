"""The transposes of what turns arguments into Tokens, and results into outputs."""

from typing import Any

import numpy as np

from linattn_core._tokens import Array, Tokens, keep


def prepare_vjp(
    gradient: Tokens,
    *,
    query: Array,
    key: Array,
    value: Array,
    log_decay: Array | None,
    beta: Array | None,
    mask: Array | None,
    scale: Any,
) -> dict[str, Array]:
    """The gradients of the arguments of `prepare` by name, in their shapes and dtypes.

    A head that neighbours share gets the sum of their gradients, a masked token 0. Rounded once.
    """
    dtype = gradient.query.dtype
    batch, tokens, heads, group, width = gradient.query.shape
    d_query = gradient.query.reshape(batch, tokens, heads * group, width)
    d_query = d_query * dtype.type(width**-0.5 if scale is None else scale)
    gradients = {
        "query": sum_heads(d_query, query.shape[2]),
        "key": sum_heads(gradient.key, key.shape[2]),
        "value": gradient.value,
    }
    given = {"query": query, "key": key, "value": value}
    if log_decay is not None and gradient.log_decay is not None:
        # At a segment's first token the prepared one is -inf, where the gradient is 0 already.
        gradients["log_decay"] = gradient.log_decay.reshape(log_decay.shape)
        given["log_decay"] = log_decay
    if beta is not None and gradient.beta is not None:
        gradients["beta"] = sum_heads(gradient.beta, beta.shape[2])[..., 0]
        given["beta"] = beta
    return {name: keep(mask, x).astype(given[name].dtype) for name, x in gradients.items()}


def sum_heads(x: Array, heads: int) -> Array:
    """`[B, T, H, D]` as `[B, T, heads, D]`: neighbours added up, the transpose of repeating."""
    batch, tokens, given, width = x.shape
    if given == heads:
        return x
    summed: Array = np.sum(x.reshape(batch, tokens, heads, given // heads, width), axis=3)
    return summed


def finish_vjp(cotangent: Array | None, mask: Array | None, tokens: Tokens, width: int) -> Array:
    """The cotangent of an output `[B, T, H * R, width]`, 0 for None, as `[B, T, H, R, width]`."""
    shape = (*tokens.query.shape[:-1], width)
    if cotangent is None:
        return np.zeros(shape, tokens.query.dtype)
    return keep(mask, cotangent.astype(tokens.query.dtype)).reshape(shape)
