"""The one tolerance table: max |x - oracle| / max |oracle| per tensor, by the tensor's own dtype.

float64 and float32 allow for a few hundred roundings of an accumulation. float16 and bfloat16 allow
for one rounding of the result (2**-11 and 2**-8) and a margin of two, because everything before it
is float32. So a float32 final state of a bfloat16 case has the float32 tolerance: the
oracle is computed from the same rounded inputs.
"""

VALUE = {"float64": 1e-12, "float32": 5e-6, "float16": 1e-3, "bfloat16": 8e-3}
GRADIENT = VALUE | {"float32": 1e-5}

# What is computed in, and what a state is returned in.
ACCUMULATION = {
    "float64": "float64",
    "float32": "float32",
    "float16": "float32",
    "bfloat16": "float32",
}

UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24}


def widened(tolerance: float, dtype: str, conditioning: float) -> float:
    """The tolerance of a tensor behind a linear system with this condition number."""
    return max(tolerance, conditioning * UNIT_ROUNDOFF[dtype])
