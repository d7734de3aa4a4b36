"""What every contender's results are compared with: linattn_core in float64, on the same arrays.

Softmax attention has no operator here: it is computed from its definition, and where that would
need too much memory a few rows are.
"""

import numpy as np

import linattn_core

# Beyond, float64 gradients of all tokens take longer and more memory than the rest of the run: the
# outputs of the first tokens are compared, which no later token changes.
LONGEST = 16384
PREFIX = 1024
ROWS = 64
LONGEST_SOFTMAX = 1024


def expected(problem, which, inputs, cotangents):
    """The results of `which` pass by name; gradients as "gradient.<input>".

    "output" may have fewer tokens than the call: the first ones. "last_rows" has the last ones.
    """
    if problem.rule in ("matmul", "chunk_products", "copy"):
        return {}
    tokens = inputs["query"].shape[1]
    if problem.rule == "softmax":
        if tokens <= LONGEST_SOFTMAX:
            found = softmax(_wide(inputs), _wide(cotangents)["output"])
            return found if which == "gradient" else {"output": found["output"]}
        return _rows_of_softmax(inputs)
    if which == "step":
        output, state = linattn_core.linear_attention(**_wide(inputs), **_arguments(problem))
        return {"last_output": output[:, -1], "final_state": state}
    if tokens > LONGEST:
        if problem.rule == "kernel":
            return {}  # every output depends on every token
        return _forward(problem, {name: x[:, :PREFIX] for name, x in inputs.items()}, ("output",))
    found = _forward(problem, inputs, problem.results)
    if which == "gradient":
        gradients = _vjp(problem)(
            **_wide(inputs),
            **_arguments(problem),
            **{f"{name}_cotangent": x for name, x in _wide(cotangents).items()},
        )
        found |= {f"gradient.{name}": gradients[name] for name in inputs}
    return found


def _forward(problem, inputs, names):
    kernel = problem.rule.startswith("kernel")
    operator = linattn_core.kernelized_attention if kernel else linattn_core.linear_attention
    results = operator(**_wide(inputs), **_arguments(problem))
    return {n: x for n, x in zip(("output", "final_state"), results, strict=True) if n in names}


def _vjp(problem):
    if problem.rule.startswith("kernel"):
        return linattn_core.kernelized_attention_vjp
    return linattn_core.linear_attention_vjp


def _arguments(problem):
    if problem.rule.startswith("kernel"):
        return {"causal": problem.rule == "kernel_causal"}
    return {"update_rule": problem.rule}


def _wide(arrays):
    return {name: np.asarray(x, "float64") for name, x in arrays.items()}


def softmax(inputs, d_output):
    """Causal softmax attention, and its gradients."""
    query, key, value = (inputs[name] for name in ("query", "key", "value"))
    scale = query.shape[-1] ** -0.5
    weights = _weights(query * scale, key, np.arange(query.shape[1]))
    d_weights = np.einsum("bthd,bshd->bhts", d_output, value)
    inner = (weights * d_weights).sum(axis=-1, keepdims=True)
    d_scores = scale * weights * (d_weights - inner)
    return {
        "output": np.einsum("bhts,bshd->bthd", weights, value),
        "gradient.query": np.einsum("bhts,bshd->bthd", d_scores, key),
        "gradient.key": np.einsum("bhts,bthd->bshd", d_scores, query),
        "gradient.value": np.einsum("bhts,bthd->bshd", weights, d_output),
    }


def _rows_of_softmax(inputs):
    """The first and the last rows of causal softmax attention."""
    tokens = inputs["query"].shape[1]
    first = np.arange(min(ROWS, tokens))
    last = np.arange(max(0, tokens - ROWS), tokens)
    return {"output": _rows(inputs, first), "last_rows": _rows(inputs, last)}


def _rows(inputs, rows):
    seen = slice(0, rows[-1] + 1)
    query = np.asarray(inputs["query"][:, rows], "float64")
    key, value = (np.asarray(inputs[name][:, seen], "float64") for name in ("key", "value"))
    weights = _weights(query * query.shape[-1] ** -0.5, key, rows)
    return np.einsum("bhts,bshd->bthd", weights, value)


def _weights(query, key, rows):
    """How much each of `rows` attends to each key `[B, H, rows, keys]`."""
    scores = np.einsum("bthd,bshd->bhts", query, key)
    scores[..., np.arange(key.shape[1]) > rows[:, None]] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
