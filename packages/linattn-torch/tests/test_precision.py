"""Dtypes, and accuracy where it is lost first."""

import pytest
import torch
from problem import RULES, error, problem

import linattn_spec
from linattn_torch import elu_plus_one, l2_normalize, linear_attention, linear_attention_step

MODES = ("parallel", "recurrent")


def oracle(given, **options):
    arrays = {name: x.detach().double().numpy() for name, x in given.items()}
    return [torch.from_numpy(x) for x in linattn_spec.linear_attention(**arrays, **options)]


@pytest.mark.parametrize("execution_mode", MODES)
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]
)
def test_narrow_floats_are_computed_in_float32_and_rounded_once(dtype, execution_mode):
    given = {n: x.detach().to(dtype) for n, x in problem("gated_delta").items()}
    options = dict(update_rule="gated_delta", execution_mode=execution_mode, chunk_size=4)
    output, state = linear_attention(**given, **options)
    wide_output, wide_state = linear_attention(
        **{n: x.float() for n, x in given.items()}, **options
    )
    assert output.dtype == dtype
    assert torch.equal(output.float(), wide_output.to(dtype).float())
    assert state.dtype == torch.float32
    assert torch.equal(state, wide_state)


@pytest.mark.parametrize("execution_mode", MODES)
def test_gates_and_state_may_have_other_dtypes(execution_mode):
    given = problem("gated_delta", dtype=torch.float32)
    given["log_decay"] = given["log_decay"].detach().to(torch.bfloat16).requires_grad_()
    given["beta"] = given["beta"].detach().to(torch.float16).requires_grad_()
    given["initial_state"] = given["initial_state"].detach().double().requires_grad_()
    output, state = linear_attention(
        **given, update_rule="gated_delta", execution_mode=execution_mode, chunk_size=4
    )
    for got, expected in zip(
        (output, state), oracle(given, update_rule="gated_delta"), strict=True
    ):
        assert got.dtype == torch.float32
        assert error(got, expected) <= 5e-6
    for x, gradient in zip(
        given.values(), torch.autograd.grad(output.sum(), list(given.values())), strict=True
    ):
        assert gradient.dtype == x.dtype


@pytest.mark.parametrize("execution_mode", MODES)
def test_state_stays_exact_over_1024_bfloat16_tokens(execution_mode):
    torch.manual_seed(0)
    T = 1024
    given = {n: torch.randn(1, T, 1, 4).to(torch.bfloat16) for n in ("query", "key", "value")}
    given["log_decay"] = torch.full((1, T, 1), -1e-3)
    _, state = linear_attention(**given, update_rule="gated", execution_mode=execution_mode)
    _, expected = oracle(given, update_rule="gated")
    assert error(state, expected) <= 1e-5


def test_state_stays_exact_over_1024_bfloat16_steps():
    torch.manual_seed(0)
    T = 1024
    given = {n: torch.randn(1, T, 1, 4).to(torch.bfloat16) for n in ("query", "key", "value")}
    given["log_decay"] = torch.full((1, T, 1), -1e-3)
    state = None
    for t in range(T):
        token = {name: x[:, t] for name, x in given.items()}
        _, state = linear_attention_step(**token, state=state, update_rule="gated")
    _, expected = oracle(given, update_rule="gated")
    assert error(state, expected) <= 1e-5


@pytest.mark.parametrize("per_key", [False, True])
@pytest.mark.parametrize("update_rule", RULES)
def test_long_float32_sequences_stay_within_tolerance(update_rule, per_key):
    given = problem(
        update_rule, B=1, T=700, Hq=1, Hk=1, Hv=1, Dk=8, per_key=per_key, dtype=torch.float32
    )
    output, state = linear_attention(
        **given, update_rule=update_rule, execution_mode="parallel", chunk_size=64
    )
    expected_output, expected_state = oracle(given, update_rule=update_rule)
    assert error(output, expected_output) <= 5e-6
    assert error(state, expected_state) <= 5e-6


@pytest.mark.parametrize("execution_mode", MODES)
def test_a_masked_token_may_hold_nan_and_gets_gradient_exactly_zero(execution_mode):
    given = problem("gated_delta", per_key=True)
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[0, 3], mask[1, 6:] = False, False
    for name in ("query", "key", "value", "log_decay", "beta"):
        with torch.no_grad():
            given[name][~mask] = torch.nan
    output, state = linear_attention(
        **given, mask=mask, update_rule="gated_delta", execution_mode=execution_mode, chunk_size=4
    )
    assert torch.equal(output[~mask], torch.zeros_like(output[~mask]))
    loss = output.square().sum() + state.square().sum()
    gradients = torch.autograd.grad(loss, list(given.values()))
    for name, gradient in zip(given, gradients, strict=True):
        assert gradient.isfinite().all()
        if name != "initial_state":
            assert torch.equal(gradient[~mask], torch.zeros_like(gradient[~mask]))


@pytest.mark.parametrize("execution_mode", MODES)
def test_only_masked_tokens_leave_the_state_bit_for_bit(execution_mode):
    given = problem("gated_delta", dtype=torch.float32)
    _, state = linear_attention(
        **given,
        mask=torch.zeros(2, 9, dtype=torch.bool),
        update_rule="gated_delta",
        execution_mode=execution_mode,
        chunk_size=4,
    )
    assert torch.equal(state, given["initial_state"])


@pytest.mark.parametrize("x", [100.0, 0.0, -0.0, -20.0, -1e4])
def test_elu_plus_one_has_an_exact_gradient_everywhere(x):
    x = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(elu_plus_one(x), x)
    expected = torch.where(x > 0, torch.ones_like(x), x.clamp(max=0).exp())
    assert torch.equal(gradient, expected)


def test_l2_normalize_has_a_finite_gradient_at_zero():
    x = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(l2_normalize(x).sum(), x)
    assert torch.equal(gradient, torch.full_like(x, 1e3))


def test_a_scale_of_zero_is_zero():
    given = problem("linear")
    output, _ = linear_attention(**given, scale=0.0)
    assert torch.equal(output, torch.zeros_like(output))
