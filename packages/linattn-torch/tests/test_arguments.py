"""Bad arguments that no fixture can hold."""

import numpy as np
import pytest
import torch
from problem import problem

from linattn_torch import elu_plus_one, kernelized_attention, linear_attention


@pytest.mark.parametrize("name", ["query", "key", "value", "log_decay", "beta"])
@pytest.mark.parametrize("not_a_tensor", [[1.0], np.zeros((2, 9, 4, 3)), 1.0])
def test_what_is_not_a_tensor_is_refused(name, not_a_tensor):
    given = problem("gated_delta") | {name: not_a_tensor}
    text = f"{name} must be a tensor, got "
    with pytest.raises(TypeError, match=text):
        linear_attention(**given, update_rule="gated_delta")


def test_a_feature_map_may_change_the_key_width():
    given = problem("linear")
    del given["initial_state"]

    def doubled(x):
        return torch.cat([x.exp(), (-x).exp()], dim=-1)

    output, state = kernelized_attention(**given, feature_map=doubled, causal=True)
    assert output.shape == (2, 9, 4, 5)
    assert [x.shape for x in state] == [(2, 2, 6, 5), (2, 2, 6)]
    again, _ = kernelized_attention(**given, feature_map=doubled, causal=True, initial_state=state)
    assert again.shape == output.shape


def test_a_feature_map_that_drops_an_axis_is_refused():
    given = problem("linear")
    del given["initial_state"]
    text = r"feature_map\(query\) must have shape \[B, T, Hq, Dk\], got \[2, 9, 4\]"
    with pytest.raises(ValueError, match=text):
        kernelized_attention(**given, feature_map=lambda x: x.sum(-1))


def test_integers_are_refused_by_the_feature_maps():
    with pytest.raises(TypeError, match="x must have a floating-point dtype, got int64"):
        elu_plus_one(torch.arange(3))


def test_scale_may_be_a_tensor_that_is_differentiated():
    given = problem("linear")
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    output, _ = linear_attention(**given, scale=scale)
    expected, _ = linear_attention(**given, scale=1.0)
    (gradient,) = torch.autograd.grad(output.sum(), scale)
    torch.testing.assert_close(gradient, expected.sum())
