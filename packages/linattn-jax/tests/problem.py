"""One small problem, its sizes and the three query heads per head all different, and its result."""

import jax
import numpy as np

import linattn_core

B, T, HEADS, QUERY_HEADS, DK, DV = 4, 11, 2, 6, 7, 5
CHUNK = 4
RULES = ("linear", "gated", "delta", "gated_delta")
MODES = ("parallel", "recurrent")


def draw(
    rule="gated_delta",
    *,
    batch=B,
    tokens=T,
    query_heads=QUERY_HEADS,
    per_key=False,
    state=True,
    seed=0,
):
    """The tensors of one call, float64."""
    rng = np.random.default_rng(seed)
    key = rng.normal(size=(batch, tokens, HEADS, DK))
    inputs = {
        "query": rng.normal(size=(batch, tokens, query_heads, DK)),
        "key": key / np.linalg.norm(key, axis=-1, keepdims=True),
        "value": rng.normal(size=(batch, tokens, HEADS, DV)),
    }
    if "gated" in rule:
        shape = (batch, tokens, HEADS) + ((DK,) if per_key else ())
        inputs["log_decay"] = -rng.uniform(0, 3, size=shape)
    if "delta" in rule:
        inputs["beta"] = rng.uniform(0, 2, size=(batch, tokens, HEADS))
    if state:
        inputs["initial_state"] = rng.normal(size=(batch, HEADS, DK, DV))
    return inputs


def expected(inputs, rule="gated_delta", **arguments):
    """The same call in NumPy, token by token."""
    arguments = arguments | {"execution_mode": "recurrent"}
    inputs = {name: np.asarray(x) for name, x in inputs.items()}
    return linattn_core.linear_attention(**inputs, update_rule=rule, **arguments)


def assert_close(got, wanted, tolerance=1e-12):
    """Raises AssertionError unless every array is within `tolerance` of its largest element."""
    got, wanted = jax.tree.leaves(got), jax.tree.leaves(wanted)
    assert len(got) == len(wanted) > 0
    for x, y in zip(got, wanted, strict=True):
        scale = max(float(np.max(np.abs(y), initial=0)), 1e-300)
        np.testing.assert_allclose(np.asarray(x) / scale, np.asarray(y) / scale, 0, tolerance)
