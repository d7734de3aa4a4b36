"""The unit lower-triangular system of the delta rules."""

import torch

from linattn_torch._tokens import Tensor

# Blocks of this size are solved; larger ones are merged from two.
BLOCK = 16


def invert_unit_lower(strict: Tensor) -> Tensor:
    """(I + L)^-1 `[..., C, C]`; L is what `strict` holds below the diagonal.

    Blocked forward substitution: as accurate as a triangular solve also for nearly parallel
    keys, where the doubling product (I - L)(I + L^2)(I + L^4)... loses every digit.
    """
    length = strict.shape[-1]
    size = min(BLOCK, length)
    blocks = _diagonal_blocks(strict, size)
    identity = torch.eye(size, dtype=strict.dtype, device=strict.device).expand(blocks.shape)
    inverse = torch.linalg.solve_triangular(blocks, identity, upper=False, unitriangular=True)
    while size < length:
        # [[A, 0], [O, B]]^-1 = [[A^-1, 0], [-B^-1 O A^-1, B^-1]]
        upper, lower = inverse[..., 0::2, :, :], inverse[..., 1::2, :, :]
        across = _diagonal_blocks(strict, 2 * size)[..., size:, :size]
        bottom = torch.cat([-(lower @ (across @ upper)), lower], dim=-1)
        inverse = torch.cat([torch.nn.functional.pad(upper, (0, size)), bottom], dim=-2)
        size *= 2
    return inverse[..., 0, :, :]


def _diagonal_blocks(x: Tensor, size: int) -> Tensor:
    """`[..., C, C]` as `[..., C / size, size, size]`."""
    count = x.shape[-1] // size
    x = x.unflatten(-1, (count, size)).unflatten(-3, (count, size))
    return x.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)
