"""Feature maps of kernel attention, and the normalisation of keys, on torch tensors."""

import torch

import linattn_core
from linattn_core.checks import check_epsilon, check_feature_map_input
from linattn_torch._describe import describe
from linattn_torch._documentation import documented_as
from linattn_torch._tokens import Tensor, wide_dtype


@documented_as(linattn_core.elu_plus_one)
def elu_plus_one(x: Tensor) -> Tensor:
    check_feature_map_input(describe, x)
    wide = x.to(wide_dtype(x))
    positive = wide > 0
    return torch.where(positive, wide + 1, torch.exp(torch.where(positive, 0, wide))).to(x.dtype)


@documented_as(linattn_core.relu)
def relu(x: Tensor, epsilon: float = 1e-6) -> Tensor:
    check_feature_map_input(describe, x)
    check_epsilon(epsilon)
    wide = x.to(wide_dtype(x))
    return (torch.where(wide > 0, wide, 0) + epsilon).to(x.dtype)


@documented_as(linattn_core.l2_normalize)
def l2_normalize(x: Tensor, epsilon: float = 1e-6) -> Tensor:
    check_feature_map_input(describe, x, "[..., D]")
    check_epsilon(epsilon)
    wide = x.to(wide_dtype(x))
    squares = torch.sum(wide * wide, dim=-1, keepdim=True)
    return (wide * torch.rsqrt(squares + epsilon)).to(x.dtype)
