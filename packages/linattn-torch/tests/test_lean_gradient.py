"""The hand-written gradient of parallel mode: the same numbers, and what it keeps and makes."""

import pytest
import torch
from problem import RULES, error, problem
from torch.utils._python_dispatch import TorchDispatchMode

from linattn_torch import _chunk, linear_attention

SIZES = dict(B=2, Hq=4, Hk=1, Hv=2, Dk=3, Dv=5)
CASES = [(rule, False) for rule in RULES] + [("gated", True), ("gated_delta", True)]


@pytest.fixture
def short_segments(monkeypatch):
    """Two chunks of 8 tokens in a segment."""
    monkeypatch.setattr(_chunk, "SEGMENT", 2 * 8 * 16 * SIZES["B"] * SIZES["Hv"])


def call(update_rule):
    def function(**given):
        return linear_attention(
            **given, update_rule=update_rule, execution_mode="parallel", chunk_size=8
        )

    return function


def loss(results, seed=0):
    generator = torch.Generator().manual_seed(seed)
    cotangents = [torch.randn(x.shape, generator=generator).to(x.dtype) for x in results]
    return sum((x * dx).sum() for x, dx in zip(results, cotangents, strict=True))


@pytest.mark.parametrize("tokens", [0, 1, 8, 16, 33, 64])
@pytest.mark.parametrize(("update_rule", "per_key"), CASES)
def test_it_is_the_gradient_that_autograd_takes_of_the_form(
    short_segments, update_rule, per_key, tokens
):
    given = problem(update_rule, T=tokens, **SIZES, per_key=per_key)
    names, tensors = list(given), tuple(given.values())

    def form(*tensors):
        return loss(call(update_rule)(**dict(zip(names, tensors, strict=True))))

    found = torch.autograd.grad(form(*tensors), tensors)
    assert type(call(update_rule)(**given)[1].grad_fn).__name__ == "_ParallelBackward"
    # torch.func differentiates operation by operation.
    plain = torch.func.grad(form, argnums=tuple(range(len(tensors))))(*tensors)
    for one, other in zip(found, plain, strict=True):
        assert error(one, other) <= 1e-13


@pytest.mark.parametrize("needs_gradient", [False, True])
@pytest.mark.parametrize("tokens", [0, 1, 33])
@pytest.mark.parametrize(("update_rule", "per_key"), CASES)
def test_an_empty_batch_has_empty_results_and_gradients(
    short_segments, update_rule, per_key, tokens, needs_gradient
):
    given = problem(update_rule, T=tokens, **SIZES | {"B": 0}, per_key=per_key)
    with torch.set_grad_enabled(needs_gradient):
        output, state = call(update_rule)(**given)
    assert output.shape == (0, tokens, SIZES["Hq"], SIZES["Dv"])
    assert state.shape == given["initial_state"].shape
    if needs_gradient:
        found = torch.autograd.grad(loss((output, state)), list(given.values()))
        assert [x.shape for x in found] == [x.shape for x in given.values()]


@pytest.mark.parametrize("wanted", ["query", "beta", "log_decay", "initial_state"])
def test_one_argument_alone_gets_the_same_gradient(short_segments, wanted):
    given = problem("gated_delta", T=33, **SIZES)
    (together,) = torch.autograd.grad(loss(call("gated_delta")(**given)), given[wanted])
    alone = {name: x.detach().requires_grad_(name == wanted) for name, x in given.items()}
    (found,) = torch.autograd.grad(loss(call("gated_delta")(**alone)), alone[wanted])
    assert torch.equal(found, together)


@pytest.mark.parametrize("which", [0, 1])
def test_one_result_alone_may_be_differentiated(short_segments, which):
    given = problem("gated_delta", T=33, **SIZES)

    def only(*tensors):
        results = call("gated_delta")(**dict(zip(given, tensors, strict=True)))
        return results[which].sin().sum()

    found = torch.autograd.grad(only(*given.values()), list(given.values()), allow_unused=True)
    plain = torch.func.grad(only, argnums=tuple(range(6)))(*given.values())
    for one, other in zip(found, plain, strict=True):
        assert error(torch.zeros_like(other) if one is None else one, other) <= 1e-13


def test_autocast_does_not_reach_into_it(short_segments):
    given = problem("gated_delta", T=33, **SIZES, dtype=torch.float32)
    wide = torch.autograd.grad(loss(call("gated_delta")(**given)), list(given.values()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = torch.autograd.grad(loss(call("gated_delta")(**given)), list(given.values()))
    for one, other in zip(found, wide, strict=True):
        assert torch.equal(one, other)


def kept(update_rule, given):
    """The elements that the forward pass keeps, without the inputs themselves."""
    inputs = {x.data_ptr() for x in given.values()}
    sizes = {}

    def keep(x):
        if x.data_ptr() not in inputs:
            sizes[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes() // x.itemsize
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        results = call(update_rule)(**given)
    assert results[0].requires_grad
    return sum(sizes.values())


@pytest.mark.parametrize(("update_rule", "per_key"), CASES)
def test_little_more_is_kept_than_tokens_and_a_state_per_chunk(update_rule, per_key):
    sizes = dict(B=1, Hq=2, Hk=2, Hv=2, Dk=8, Dv=8)
    given = problem(update_rule, T=256, **sizes, per_key=per_key)
    # Of each chunk of 8: query, key, value, decays, its state, what it wrote, its inverse.
    assert kept(update_rule, given) <= 8 * given["value"].numel()


class Work(TorchDispatchMode):
    """Counts the elements that operations return."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for x in torch.utils._pytree.tree_leaves(result):
            if isinstance(x, torch.Tensor):
                self.elements += x.numel()
        return result


@pytest.mark.parametrize("transformed", [False, True])
def test_the_work_of_a_gradient_grows_with_the_length_and_not_with_its_square(
    short_segments, transformed
):
    def elements(tokens):
        given = problem("gated_delta", T=tokens, **SIZES)

        def form(value):
            return loss(call("gated_delta")(**given | {"value": value}))

        with Work() as work:
            if transformed:
                torch.func.grad(form)(given["value"].detach())
            else:
                torch.autograd.grad(form(given["value"]), given["value"])
        return work.elements

    # Linear within a segment or two: the views of a sequence count as its elements.
    assert elements(1024) <= 2.3 * elements(512)
