"""What bounds every contender: matrix products, and reading and writing memory."""

from benchmarks.contenders import Contender, builder
from benchmarks.operations import CHUNK


def matmul(framework, multiply, reshape, **options):
    """The rate of one large matrix product, and of many small ones as chunks have them.

    `multiply(x, y)` is x y', each `[..., N, D]`; `reshape` is the framework's own.
    """

    def product(problem):
        def large(inputs):
            return {"output": multiply(inputs["query"][0, :, 0], inputs["key"][0, :, 0])}

        def small(inputs):
            chunks = (-1, CHUNK, problem.shape[-1])
            query, key = (reshape(inputs[name], chunks) for name in ("query", "key"))
            return {"output": multiply(query, key)}

        return large if problem.rule == "matmul" else small

    def takes(problem, which):
        return problem.rule in ("matmul", "chunk_products") and which == "forward"

    return Contender(takes, builder(framework, product, **options))


def copy(framework, duplicate):
    """Copies the value; as a "step" the state alone, the least that one can cost."""

    def takes(problem, which):
        return problem.rule == "copy" and which != "gradient"

    def copied(problem):
        return lambda inputs: {"output": duplicate(inputs["value"])}

    return Contender(takes, builder(framework, copied, _step(duplicate)))


def compiled_step(framework, negate, **options):
    """Negates the state: what a call costs that reads it and writes it, and does nothing else.

    A compiler leaves a copy out.
    """

    def takes(problem, which):
        return problem.rule == "copy" and which == "step"

    return Contender(takes, builder(framework, None, _step(negate), **options))


def _step(rewrite):
    return lambda problem: lambda token, state: (token["value"], rewrite(state))
