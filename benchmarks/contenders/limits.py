"""What bounds every contender: matrix products, and reading and writing memory."""

from benchmarks.contenders import Contender, builder


def matmul(framework, **options):
    """The rate of one large matrix product."""

    def product(problem):
        def computed(inputs):
            return {"output": inputs["query"][0, :, 0] @ inputs["key"][0, :, 0].T}

        return computed

    def takes(problem, which):
        return problem.rule == "matmul" and which == "forward"

    return Contender(takes, builder(framework, product, **options))


def copy(framework, duplicate):
    """A "step" that only copies the state: the least that one can cost."""

    def copied(problem):
        return lambda token, state: (token["value"], duplicate(state))

    def takes(problem, which):
        return problem.rule == "copy" and which == "step"

    return Contender(takes, builder(framework, None, copied))
