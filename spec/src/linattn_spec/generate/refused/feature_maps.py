"""elu_plus_one, relu and l2_normalize."""

from collections.abc import Iterator

from linattn_spec.fixtures import Case
from linattn_spec.generate.refused.call import array, refused


def cases() -> Iterator[Case]:
    for operator in ("elu_plus_one", "relu", "l2_normalize"):
        for dtype in ("int32", "complex64"):
            inputs = {"x": array((3, 4), dtype)}
            text = f"x must have a floating-point dtype, got {dtype}"
            yield refused(f"x-{dtype}", operator, inputs, {}, "TypeError", text)
    for operator in ("relu", "l2_normalize"):
        for id, epsilon, error in (("negative", -1.0, "ValueError"), ("text", "1", "TypeError")):
            text = f"epsilon must be a number >= 0, got {epsilon!r}"
            arguments = {"epsilon": epsilon}
            yield refused(f"epsilon-{id}", operator, {"x": array((3, 4))}, arguments, error, text)
