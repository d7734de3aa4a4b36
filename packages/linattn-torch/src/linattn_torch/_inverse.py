"""The unit lower-triangular system of the delta rules."""

import torch

from linattn_torch._tokens import Tensor


def solve_unit_lower(strict: Tensor, right: Tensor) -> Tensor:
    """(I + strict)^-1 right, for a strictly lower-triangular `[..., C, C]` and `[..., C, D]`.

    Forward substitution: accurate also for nearly parallel keys, where the doubling product
    (I - L)(I + L^2)(I + L^4)... loses every digit.
    """
    return torch.linalg.solve_triangular(strict, right, upper=False, unitriangular=True)
