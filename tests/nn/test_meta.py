"""Layers that are built on the meta device, or moved through it, and filled by a state dict."""

import copy

import pytest
import torch

from tests.nn.laws import examples

LAYERS = examples()


@pytest.mark.parametrize("way", ["moved", "built", "assigned"])
@pytest.mark.parametrize("name", LAYERS)
def test_indices_and_other_constants_survive(name, way):
    torch.manual_seed(0)
    make = LAYERS[name]
    layer = make(4, 3).double()
    if way != "moved" and any("parametrizations" in key for key in layer.state_dict()):
        pytest.skip("PyTorch registers no parametrisation of tensors without numbers")
    if way == "moved":
        other = copy.deepcopy(layer).to("meta").to_empty(device="cpu")
    else:
        with torch.device("meta"):
            other = make(4, 3).double()
        other = other if way == "assigned" else other.to_empty(device="cpu")
    other.load_state_dict(layer.state_dict(), assign=way == "assigned")
    z = torch.randn(2, 3, getattr(layer, "dim", 4), dtype=torch.float64)
    count = getattr(layer, "parameter_count", 0)
    parameters = [torch.randn(2, count, dtype=torch.float64)] if count else []
    with torch.no_grad():
        expected = layer(z, *parameters)
        torch.testing.assert_close(other(z, *parameters), expected, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(
            other.float()(z.float(), *(k.float() for k in parameters)).double(),
            expected,
            rtol=1e-2,
            atol=1e-2,
            equal_nan=True,
        )
