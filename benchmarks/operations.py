"""What a problem needs at least: floating-point operations, and bytes in and out.

Counted for the chunk form with chunks of 64 tokens, of which the causal half of each product of
tokens with tokens is needed. A multiplication with its addition counts as two.
"""

from math import prod

CHUNK = 64
BYTES = {"float32": 4, "bfloat16": 2}


def operations(problem, which):
    """How many operations a pass needs; the gradient of a product is two products."""
    batch, tokens, heads, width = problem.shape
    if problem.rule == "matmul":
        return 2 * tokens * tokens * width
    if problem.rule == "chunk_products":
        return 2 * batch * heads * tokens * CHUNK * width
    times = 3 if which == "gradient" else 1
    if problem.rule == "softmax":
        return times * batch * heads * tokens * tokens * width * 2
    # Of every token: the state is read and written; queries by keys, and what they weigh.
    each = 4 * width * width
    if problem.rule != "kernel":
        each += 2 * CHUNK * width
    if "delta" in problem.rule:
        # Keys by keys, the solution of both right sides, and what the state has of the keys.
        each += 3 * CHUNK * width + 2 * width * width
    return times * batch * heads * tokens * each


def bytes_of_value(problem):
    return prod(problem.shape) * BYTES[problem.dtype]


def bytes_in_and_out(problem, which):
    """Bytes of the inputs and results, and with "gradient" of cotangents and gradients as well."""
    batch, tokens, heads, width = problem.shape
    per_token = 4 * width  # query, key, value, output
    for name in problem.inputs:
        if name == "log_decay":
            per_token += width if problem.per_key else 1
        elif name == "beta":
            per_token += 1
    size = batch * tokens * heads * per_token * BYTES[problem.dtype]
    if "final_state" in problem.results:
        size += prod((batch, heads, width, width, BYTES["float32"]))
    return size * (2 if which == "gradient" else 1)
