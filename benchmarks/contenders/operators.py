"""The operators of any package of linattn as functions from inputs by name to results by name."""

from benchmarks.problems import LINEAR

MODES = ("auto", "parallel", "recurrent")


def takes(mode, dtypes):
    """Every rule of the family; a single token has no execution mode, and is taken once."""

    def answer(problem, which):
        if problem.dtype not in dtypes:
            return False
        if which == "step":
            return problem.rule in LINEAR and mode == "auto"
        return problem.rule in LINEAR or problem.rule.startswith("kernel")

    return answer


def call(package, mode):
    """From a problem to the function that computes it with `package`."""

    def function(problem):
        if problem.rule.startswith("kernel"):
            causal = problem.rule == "kernel_causal"

            def computed(inputs):
                results = package.kernelized_attention(**inputs, causal=causal, execution_mode=mode)
                return {"output": results[0]}

        else:

            def computed(inputs):
                output, state = package.linear_attention(
                    **inputs, update_rule=problem.rule, execution_mode=mode
                )
                return {"output": output, "final_state": state}

        return computed

    return function


def step(package):
    """From a problem to the function of one token and the state before it."""

    def function(problem):
        return lambda token, state: package.linear_attention_step(
            **token, state=state, update_rule=problem.rule
        )

    return function
