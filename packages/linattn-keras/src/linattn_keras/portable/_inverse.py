"""The unit lower-triangular system of the delta rules."""

from keras import ops

from linattn_keras.portable._describe import dtype_name, sizes
from linattn_keras.portable._tokens import Tensor


def solve_unit_lower(strict: Tensor, right: Tensor) -> Tensor:
    """(I + strict)^-1 right, for a strictly lower-triangular `[..., C, C]` and `[..., C, D]`.

    Blocked forward substitution: as accurate as a triangular solve also for nearly parallel
    keys, where the doubling product (I - L)(I + L^2)(I + L^4)... loses every digit.
    """
    return _inverse(strict) @ right


def _inverse(strict: Tensor) -> Tensor:
    length = sizes(strict)[-1]
    if length <= 2:
        return ops.eye(length, dtype=dtype_name(strict)) - strict
    # [[A, 0], [O, B]]^-1 = [[A^-1, 0], [-B^-1 O A^-1, B^-1]], both diagonal blocks in one batch.
    top, bottom = ops.split(strict, 2, axis=-2)
    first, _ = ops.split(top, 2, axis=-1)
    across, second = ops.split(bottom, 2, axis=-1)
    upper, lower = ops.unstack(_inverse(ops.stack([first, second], axis=0)), 2, axis=0)
    return ops.concatenate(
        [
            ops.concatenate([upper, ops.zeros_like(upper)], axis=-1),
            ops.concatenate([-(lower @ across @ upper), lower], axis=-1),
        ],
        axis=-2,
    )
