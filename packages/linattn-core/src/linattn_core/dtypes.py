"""Which dtypes are accepted, and which one everything between input and output is computed in."""

# Wider than float32: computed in itself. Every narrower float is computed in float32.
_WIDE = ("float64", "longdouble", "float96", "float128")


def is_floating(dtype: str) -> bool:
    """Whether the dtype called `dtype` is a real floating-point one."""
    return dtype.startswith(("float", "bfloat")) or dtype == "longdouble"


def is_integer(dtype: str) -> bool:
    """Whether the dtype called `dtype` is an integer one (bool is not)."""
    return dtype.startswith(("int", "uint"))


def compute_dtype(dtype: str) -> str:
    """The dtype to compute in for inputs of `dtype`: at least float32, float64 for float64.

    The output is rounded once, to the dtype of value; the state is returned in this one.
    """
    return dtype if dtype in _WIDE else "float32"
