"""All cases, in the order of the manifest."""

from linattn_spec.fixtures import Case
from linattn_spec.generate import (
    delta,
    feature_maps,
    gates,
    kernelized_attention,
    linear_attention,
    long,
    low_precision,
    onnx_linear_attention,
    padding,
    refused,
    streaming,
    tiny,
)
from linattn_spec.generate.onnx_examples import EXAMPLES

# Ids of cases that a release had and that were withdrawn. An id is never used again.
WITHDRAWN = ()

_SCENARIOS = (
    linear_attention,
    gates,
    delta,
    padding,
    kernelized_attention,
    onnx_linear_attention,
    feature_maps,
    low_precision,
    streaming,
    long,
    tiny,
)


def cases() -> list[Case]:
    """Every case of the fixtures."""
    everything = [
        case
        for module in _SCENARIOS
        for scenario in module.scenarios()
        for case in scenario.cases()
    ]
    everything += [*EXAMPLES, *refused.cases()]
    ids = [case.id for case in everything]
    repeated = {id for id in ids if ids.count(id) > 1 or id in WITHDRAWN}
    if repeated:
        raise ValueError(f"ids used twice or after they were withdrawn: {sorted(repeated)}")
    return everything
