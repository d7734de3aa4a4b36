"""Seeded inputs of linear_attention, for the tests that no fixture can hold."""

import torch

RULES = ("linear", "gated", "delta", "gated_delta")


def problem(
    update_rule, B=2, T=9, Hq=4, Hk=1, Hv=2, Dk=3, Dv=5, *, per_key=False, seed=0, dtype=None
):
    """Keyword arguments of linear_attention; every float tensor asks for its gradient."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    given = {
        "query": normal(B, T, Hq, Dk),
        "key": torch.nn.functional.normalize(normal(B, T, Hk, Dk), dim=-1),
        "value": normal(B, T, Hv, Dv),
        "initial_state": normal(B, Hv, Dk, Dv),
    }
    if update_rule in ("gated", "gated_delta"):
        given["log_decay"] = -normal(*(B, T, Hv, Dk)[: 4 if per_key else 3]).abs()
    if update_rule in ("delta", "gated_delta"):
        given["beta"] = 2 * torch.sigmoid(normal(B, T, Hv))
    return {name: x.to(dtype or torch.float64).requires_grad_() for name, x in given.items()}


def error(got, expected):
    """The largest error of `got` relative to the largest element of `expected`."""
    got, expected = got.detach().double(), expected.detach().double()
    assert got.shape == expected.shape
    if expected.numel() == 0:
        return 0.0
    return ((got - expected).abs().max() / expected.abs().max().clamp_min(1e-300)).item()
