"""Layers by themselves as programs of torch.export."""

import pytest
import torch

from vpintegrator import nn


@pytest.mark.parametrize(
    "options",
    [
        {"dim": 3, "width": 8},
        {"dim": 4, "width": 5, "split": "halves"},
        {"dim": 3, "width": 4, "parameters": 2},
    ],
    ids=["three", "halves", "parameters"],
)
def test_a_bare_coupling(options):
    torch.manual_seed(0)
    layer = nn.AdditiveCoupling(**options)
    arguments = (torch.rand(5, 2, layer.dim),)
    if layer.parameter_count:
        arguments += (torch.rand(5, layer.parameter_count),)
    program = torch.export.export(layer, arguments).module()
    torch.testing.assert_close(program(*arguments), layer(*arguments))
