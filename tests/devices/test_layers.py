"""Every layer on a device."""

import pytest
import torch

from tests.devices.same import assert_same, assert_same_map
from tests.nn.laws import OnVariables, examples, made, sample


@pytest.mark.parametrize("name", examples())
def test_the_same_numbers_on_a_device(device, name):
    layer = made(name)
    variables = OnVariables(layer).eval()
    x = sample(2, 3, variables.dim, seed=2, scale=0.5)
    # transforms of couplings stand for those of all layers
    there = assert_same_map(variables, x, device, transforms=layer.volume_preserving)
    if layer.parameter_count and getattr(layer, "turn", None) is None:
        # what is made of a layer on the device stays there
        z, k = sample(2, 3, 4), torch.tensor([0.3, -0.7], dtype=torch.float64)
        plain = there.at(k.to(device))
        assert_same(plain(z.to(device)), layer.at(k)(z), device)
