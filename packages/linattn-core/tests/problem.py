"""Random arguments of linear_attention, all sizes different, and how far results are apart."""

import numpy as np

SIZES = dict(B=2, T=7, Hq=6, Hk=1, Hv=3, Dk=4, Dv=5)
RULES = ("linear", "gated", "delta", "gated_delta")
MODES = ("parallel", "recurrent")
NO_TIME = ("state", "initial_state")


def problem(rule="gated_delta", *, dtype="float64", per_key=False, state=True, seed=0, **sizes):
    """Every array that `rule` takes by argument name."""
    n, rng = SIZES | sizes, np.random.default_rng(seed)
    tokens = (n["B"], n["T"])
    key = rng.normal(size=(*tokens, n["Hk"], n["Dk"]))
    inputs = {
        "query": rng.normal(size=(*tokens, n["Hq"], n["Dk"])),
        "key": key / np.linalg.norm(key, axis=-1, keepdims=True),
        "value": rng.normal(size=(*tokens, n["Hv"], n["Dv"])),
    }
    if "gated" in rule:
        tail = (n["Dk"],) if per_key else ()
        inputs["log_decay"] = -rng.uniform(size=(*tokens, n["Hv"], *tail))
    if "delta" in rule:
        inputs["beta"] = rng.uniform(size=(*tokens, n["Hv"]))
    if state:
        inputs["initial_state"] = rng.normal(size=(n["B"], n["Hv"], n["Dk"], n["Dv"]))
    return {name: x.astype(dtype) for name, x in inputs.items()}


def cotangents(inputs, seed=1):
    """Cotangents of the output and of the final state, float64."""
    rng = np.random.default_rng(seed)
    (B, T, Hq, Dk), (Hv, Dv) = inputs["query"].shape, inputs["value"].shape[2:]
    return {
        "output_cotangent": rng.normal(size=(B, T, max(Hq, Hv), Dv)),
        "final_state_cotangent": rng.normal(size=(B, Hv, Dk, Dv)),
    }


def error(got, expected):
    """max |got - expected| / max |expected|; 0 for equal arrays, whatever their size."""
    assert np.shape(got) == np.shape(expected)
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    distance = np.max(np.abs(got - expected), initial=0)
    return 0.0 if distance == 0 else distance / np.max(np.abs(expected))
