"""What torch users do: differentiate twice, vmap, compile, export, trace without data."""

import warnings
from functools import partial

import pytest
import torch
import torch._dynamo.testing
from problem import RULES, error, problem
from torch.func import grad, jacrev, jvp, vmap

from linattn_torch import kernelized_attention, linear_attention, linear_attention_step

MODES = ("parallel", "recurrent")


def call(update_rule, execution_mode="parallel", **options):
    return partial(
        linear_attention,
        update_rule=update_rule,
        execution_mode=execution_mode,
        chunk_size=4,
        **options,
    )


def positional(update_rule, given, execution_mode="parallel", **options):
    """The operator as a function of its tensors alone, and the tensors."""
    names = list(given)

    def function(*tensors):
        return call(update_rule, execution_mode, **options)(
            **dict(zip(names, tensors, strict=True))
        )

    return function, list(given.values())


def outputs_and_gradients(function, given):
    output, final_state = function(**given)
    loss = output.square().sum() + final_state.sin().sum()
    return (output, final_state, *torch.autograd.grad(loss, list(given.values())))


def assert_same(got, expected, tolerance=1e-12):
    for one, other in zip(got, expected, strict=True):
        assert error(one, other) <= tolerance


@pytest.mark.parametrize("execution_mode", MODES)
@pytest.mark.parametrize("per_key", [False, True])
@pytest.mark.parametrize("update_rule", RULES)
def test_first_and_second_derivatives_match_finite_differences(
    update_rule, per_key, execution_mode
):
    given = problem(update_rule, B=1, T=5, Hq=2, Hk=1, Hv=1, Dk=2, Dv=3, per_key=per_key)
    function, tensors = positional(update_rule, given, execution_mode)
    torch.autograd.gradcheck(function, tensors)
    torch.autograd.gradgradcheck(function, tensors, fast_mode=True)


@pytest.mark.parametrize("update_rule", RULES)
def test_second_derivatives_agree_between_the_modes(update_rule):
    given = problem(update_rule, T=11, per_key=True)

    def second(execution_mode):
        output, state = call(update_rule, execution_mode)(**given)
        first = torch.autograd.grad(
            output.square().sum() + state.sum(), list(given.values()), create_graph=True
        )
        return torch.autograd.grad(sum(x.square().sum() for x in first), list(given.values()))

    assert_same(second("parallel"), second("recurrent"), 1e-11)


@pytest.mark.parametrize("execution_mode", MODES)
@pytest.mark.parametrize("update_rule", RULES)
def test_vmap_equals_a_loop(update_rule, execution_mode):
    problems = [problem(update_rule, seed=seed) for seed in range(3)]
    function, _ = positional(update_rule, problems[0], execution_mode)
    stacked = [torch.stack(x) for x in zip(*(p.values() for p in problems), strict=True)]
    output, state = vmap(function)(*stacked)
    for i, given in enumerate(problems):
        assert_same((output[i], state[i]), function(*given.values()), 1e-13)


@pytest.mark.parametrize("execution_mode", MODES)
def test_per_sample_gradients_by_vmap_of_grad(execution_mode):
    given = problem("gated_delta", per_key=True)
    function, tensors = positional("gated_delta", given, execution_mode)

    def loss(*sample):
        output, state = function(*(x[None] for x in sample))
        return output.square().sum() + state.sum()

    every = tuple(range(len(tensors)))
    got = vmap(grad(loss, argnums=every))(*tensors)
    for i in range(2):
        assert_same([x[i] for x in got], grad(loss, argnums=every)(*(x[i] for x in tensors)))


@pytest.mark.parametrize("execution_mode", MODES)
def test_forward_and_reverse_mode_agree(execution_mode):
    given = {n: x.detach() for n, x in problem("gated_delta", T=6).items()}
    function, tensors = positional("gated_delta", given, execution_mode)
    tangents = tuple(torch.cos(x) for x in tensors)
    _, (output_tangent, _) = jvp(function, tuple(tensors), tangents)
    jacobian = jacrev(lambda *x: function(*x)[0], argnums=tuple(range(len(tensors))))(*tensors)
    product = sum(
        torch.tensordot(j, t, dims=t.ndim) for j, t in zip(jacobian, tangents, strict=True)
    )
    assert error(output_tangent, product) <= 1e-12


@pytest.mark.parametrize("update_rule", RULES)
def test_compiles_without_graph_breaks_once_per_number_of_chunks(update_rule):
    torch._dynamo.reset()
    backend = "aot_eager" if update_rule == "gated_delta" else "eager"
    counter = torch._dynamo.testing.CompileCounterWithBackend(backend)
    compiled = torch.compile(call(update_rule), fullgraph=True, backend=counter)
    # One static program for the first T, then one for each number of chunks.
    for tokens, programs in ((9, 1), (10, 2), (11, 2), (12, 3), (13, 3), (15, 3)):
        given = problem(update_rule, T=tokens, seed=tokens)
        assert_same(
            outputs_and_gradients(compiled, given), outputs_and_gradients(call(update_rule), given)
        )
        assert counter.frame_count == programs


@pytest.mark.parametrize("execution_mode", MODES)
def test_inductor_program_equals_eager(execution_mode):
    torch._dynamo.reset()
    given = problem("gated_delta", T=6, per_key=True, dtype=torch.float32)
    mask = torch.tensor([[1, 1, 1, 1, 0, 0], [0, 1, 1, 0, 1, 1]], dtype=torch.bool)
    segment_ids = torch.tensor([[0, 0, 1, 1, 1, 1], [3, 3, 3, 3, 2, 2]])
    function = call("gated_delta", execution_mode, mask=mask, segment_ids=segment_ids)
    compiled = torch.compile(function, fullgraph=True)
    assert_same(
        outputs_and_gradients(compiled, given), outputs_and_gradients(function, given), 1e-5
    )


def test_step_and_kernel_attention_compile_without_graph_breaks():
    torch._dynamo.reset()
    given = {n: x.detach() for n, x in problem("gated_delta").items()}
    state = given.pop("initial_state")
    token = {name: x[:, 0] for name, x in given.items()}
    step = partial(linear_attention_step, **token, state=state, update_rule="gated_delta")
    assert_same(torch.compile(step, fullgraph=True, backend="aot_eager")(), step())
    kernel = partial(
        kernelized_attention, given["query"], given["key"], given["value"], chunk_size=4
    )
    for causal in (True, False):
        compiled = torch.compile(kernel, fullgraph=True, backend="aot_eager")
        assert_same(compiled(causal=causal)[:1], kernel(causal=causal)[:1])


class Operator(torch.nn.Module):
    def __init__(self, update_rule, execution_mode):
        super().__init__()
        self.options = dict(update_rule=update_rule, execution_mode=execution_mode, chunk_size=4)

    def forward(self, given):
        return linear_attention(**given, **self.options)


@pytest.mark.parametrize("execution_mode", [*MODES, "auto"])
@pytest.mark.parametrize(
    ("update_rule", "per_key"),
    [("linear", False), ("gated", False), ("delta", False), ("gated_delta", True)],
)
def test_exports_with_open_batch_and_length(update_rule, per_key, execution_mode):
    def inputs(B, T):
        return {n: x.detach() for n, x in problem(update_rule, B=B, T=T, per_key=per_key).items()}

    # Named sizes, which refuse a program that holds for some of them only.
    B, T = torch.export.Dim("B"), torch.export.Dim("T")
    shapes = {name: {0: B} if name == "initial_state" else {0: B, 1: T} for name in inputs(2, 9)}
    module = Operator(update_rule, execution_mode)
    exported = torch.export.export(module, (inputs(2, 9),), dynamic_shapes=(shapes,)).module()
    for B, T in ((2, 9), (1, 1), (3, 4), (5, 17)):
        assert_same(exported(inputs(B, T)), module(inputs(B, T)))


@pytest.mark.parametrize("execution_mode", MODES)
def test_meta_and_fake_tensors_have_the_results_shapes(execution_mode):
    given = problem("gated_delta")
    expected = [x.shape for x in call("gated_delta", execution_mode)(**given)]
    meta = {name: x.to("meta") for name, x in given.items()}
    assert [x.shape for x in call("gated_delta", execution_mode)(**meta)] == expected
    with torch._subclasses.FakeTensorMode() as mode:
        fake = {name: mode.from_tensor(x) for name, x in given.items()}
        assert [x.shape for x in call("gated_delta", execution_mode)(**fake)] == expected


def step(query, key, value, initial_state, log_decay, beta):
    token = {"query": query[:, 0], "key": key[:, 0], "value": value[:, 0]}
    gates = {"log_decay": log_decay[:, 0], "beta": beta[:, 0]}
    return linear_attention_step(**token, **gates, state=initial_state, update_rule="gated_delta")


def kernel(causal, query, key, value, segment_ids=None, **_):
    options = {"causal": causal, "segment_ids": segment_ids, "chunk_size": 4}
    output, state = kernelized_attention(query, key, value, **options)
    return output, output if state is None else state[0]


def with_gradients(results, given):
    loss = sum(x.square().sum() for x in results)
    gradients = torch.autograd.grad(loss, list(given.values()), allow_unused=True)
    return *results, *(x for x in gradients if x is not None)


SEGMENT_IDS = torch.tensor([[0] * 4 + [1] * 5, [2] * 9])
OPERATORS = {
    "parallel": call("gated_delta", "parallel"),
    "recurrent": call("gated_delta", "recurrent"),
    "step": step,
    "causal kernel": partial(kernel, True),
    "kernel": partial(kernel, False),
    "kernel of segments": partial(kernel, False, segment_ids=SEGMENT_IDS),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_autocast_does_not_reach_inside(name):
    given = problem("gated_delta", dtype=torch.float32)
    expected = OPERATORS[name](**given)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = OPERATORS[name](**given)
    # Outside, as torch asks for: a backward pass inside is under the caller's autocast.
    for one, other in zip(with_gradients(got, given), with_gradients(expected, given), strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


@pytest.mark.parametrize("execution_mode", MODES)
def test_default_dtype_and_device_do_not_matter(execution_mode):
    given = problem("gated_delta", dtype=torch.float32)
    segment_ids = torch.tensor([[0] * 4 + [1] * 5, [2] * 9])
    function = call("gated_delta", execution_mode, segment_ids=segment_ids)
    expected = function(**given)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            got = function(**given)
    finally:
        torch.set_default_dtype(torch.float32)
    for one, other in zip(got, expected, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


@pytest.mark.parametrize("execution_mode", MODES)
def test_strides_do_not_matter(execution_mode):
    given = problem("gated_delta", per_key=True)
    function = call("gated_delta", execution_mode)
    strided = {}
    for name, x in given.items():
        wider = torch.stack([x.detach(), torch.full_like(x, torch.nan)], dim=-1).transpose(0, 1)
        strided[name] = wider.contiguous().transpose(0, 1)[..., 0].requires_grad_()
        assert not strided[name].is_contiguous()
    assert_same(outputs_and_gradients(function, strided), outputs_and_gradients(function, given))


def test_no_warning_is_raised():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for execution_mode in MODES:
            outputs_and_gradients(call("gated_delta", execution_mode), problem("gated_delta"))
