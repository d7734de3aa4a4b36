"""The faults. Importing a file puts its mutants into the table."""

from linattn_spec.mutants.faults import (
    calls,
    checks,
    chunks,
    feature_maps,
    gate_gradients,
    gradients,
    heads,
    kernels,
    padding,
    precision,
    precision_gradients,
    recurrence,
    state_precision,
)

__all__ = [
    "calls",
    "checks",
    "chunks",
    "feature_maps",
    "gate_gradients",
    "gradients",
    "heads",
    "kernels",
    "padding",
    "precision",
    "precision_gradients",
    "recurrence",
    "state_precision",
]
