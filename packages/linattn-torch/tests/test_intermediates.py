"""Parallel mode, forward and backward, makes no [T, T] and no [T, Dk, Dv] tensor."""

import pytest
import torch
from problem import RULES, problem
from torch.utils._python_dispatch import TorchDispatchMode

from linattn_torch import kernelized_attention, linear_attention

# T is no product of the other sizes, nor is T rounded up to whole chunks of 8.
SIZES = dict(B=1, T=83, Hq=2, Hk=1, Hv=1, Dk=5, Dv=7)
LENGTHS = (83, 88)


class Trace(TorchDispatchMode):
    """Records the shape of every tensor that an operation returns."""

    def __init__(self):
        super().__init__()
        self.shapes = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for x in torch.utils._pytree.tree_leaves(result):
            if isinstance(x, torch.Tensor):
                self.shapes.add(tuple(x.shape))
        return result


def excesses(function, given):
    """The shapes with two axes of length T, or with as many elements as T states."""
    with Trace() as trace:
        output, _ = function(**given)
        output.square().sum().backward()
    assert trace.shapes
    states = SIZES["T"] * SIZES["Dk"] * SIZES["Dv"]
    pairs = [s for s in trace.shapes if sum(size in LENGTHS for size in s) > 1]
    return pairs + [s for s in trace.shapes if torch.Size(s).numel() >= states]


@pytest.mark.parametrize("per_key", [False, True])
@pytest.mark.parametrize("update_rule", RULES)
def test_linear_attention_makes_no_token_pairs_and_no_state_per_token(update_rule, per_key):
    def function(**given):
        return linear_attention(
            **given, update_rule=update_rule, execution_mode="parallel", chunk_size=8
        )

    assert excesses(function, problem(update_rule, **SIZES, per_key=per_key)) == []


@pytest.mark.parametrize("causal", [True, False])
def test_kernel_attention_makes_no_token_pairs_and_no_state_per_token(causal):
    given = problem("linear", **SIZES)
    del given["initial_state"]

    def function(**given):
        return kernelized_attention(**given, causal=causal, execution_mode="parallel", chunk_size=8)

    assert excesses(function, given) == []


def test_the_check_sees_token_pairs_and_states_per_token():
    given = problem("linear", **SIZES)

    def pairs(query, key, value, initial_state):
        products = torch.tril(query[:, :, 0] @ key[:, :, 0].mT)
        return products @ value[:, :, 0], initial_state

    def states(query, key, value, initial_state):
        state = (key[..., :, None] * value[..., None, :]).cumsum(1)
        return (query[:, :, :1, None] @ state)[..., 0, :], initial_state

    assert (1, 83, 83) in excesses(pairs, given)
    assert (1, 83, 1, 5, 7) in excesses(states, given)
