"""Scenarios of elu_plus_one, relu and l2_normalize."""

from collections.abc import Iterator

import numpy as np

from linattn_spec.generate.draw import Draw
from linattn_spec.generate.scenario import ALL, FULL, Scenario

SHAPE = (2, 5, 3, 4)


def scenarios() -> Iterator[Scenario]:
    for operator, name, clause, flags, low, high, summary in (
        ("elu_plus_one", "usual", "(9)", ("elu-at-zero",), -3.0, 3.0, "Around 0."),
        ("elu_plus_one", "far-negative", "(9)", ("elu-cancels",), -20.0, -8.0,
         "elu(x) + 1 cancels to 0 here, exp(x) does not."),
        ("elu_plus_one", "far-positive", "(9)", ("elu-at-zero",), 90.0, 120.0,
         "exp(x) overflows on the side that is not taken."),
        ("relu", "usual", "(10)", ("epsilon-ignored",), -3.0, 3.0, "Around 0."),
        ("l2_normalize", "usual", "(12)", ("l2-normalize-zero",), -2.0, 2.0, "Usual vectors."),
        ("l2_normalize", "small", "(12)", ("l2-normalize-zero",), -2e-3, 2e-3,
         "Vectors about as long as the root of epsilon."),
    ):  # fmt: skip
        id = f"{operator.replace('_', '-')}-{name}"
        x = Draw(id).uniform(low, high, SHAPE)
        if low < 0 < high and operator != "l2_normalize":
            x[:, 0, 0, :2] = 0.0  # elu has slope 1 here, relu slope 0
        dtypes = FULL if name in ("far-positive", "small") else ALL
        yield Scenario(
            id, summary, flags, f"equation {clause}", operator, {}, {"x": x}, dtypes=dtypes
        )
    yield Scenario(
        "l2-normalize-zero",
        "Vectors of zeros give zeros and a finite gradient.",
        ("l2-normalize-zero",),
        "equation (12)",
        "l2_normalize",
        {},
        {"x": np.zeros(SHAPE)},
        dtypes=ALL,
    )
    for operator, clause, epsilon in (("relu", "(10)", 0.125), ("l2_normalize", "(12)", 0.5)):
        id = f"{operator.replace('_', '-')}-epsilon"
        yield Scenario(
            id,
            f"Epsilon {epsilon} instead of its default.",
            ("epsilon-ignored",),
            f"equation {clause}",
            operator,
            {"epsilon": epsilon},
            {"x": Draw(id).uniform(-1.0, 1.0, SHAPE)},
            dtypes=("float64",),
        )
