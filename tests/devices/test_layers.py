"""Every layer on a device."""

import inspect
from functools import partial

import pytest
import torch

from tests.devices.same import assert_same, assert_same_map
from tests.nn import test_parameters, test_symplectic, test_volume_preserving
from tests.nn.laws import OnVariables, randomise, sample
from vpintegrator import nn

OTHERS = {
    "standard attention": lambda: nn.MultiHeadAttention(4, 2),
    "attention on Stiefel matrices": lambda: nn.MultiHeadAttention(4, 2, stiefel=True),
    "additive attention": lambda: nn.AdditiveAttention(4, 3),
    "multiplicative attention": lambda: nn.MultiplicativeAttention(4),
    "arbitrary attention": lambda: nn.VolumePreservingAttention(4, "arbitrary"),
    "encoder": lambda: nn.EncoderBlock(4, 2),
    "encoder on Stiefel matrices": lambda: nn.EncoderBlock(4, 2, stiefel=True, norm="batch"),
    "residual": lambda: nn.ResidualLayer(4),
    "affine": lambda: nn.AffineMap(4),
    "polynomial": lambda: nn.PolynomialLayer(4, 3),
    "formulas in polynomials": lambda: nn.BasisCoupling(
        4, 2, expressions=["sigmoid(z[0] - z[3])", "sin(z[1])"], periodic=[2]
    ),
}
LAYERS = {
    **{f"volume, {name}": partial(m, 4, 3) for name, m in test_volume_preserving.LAYERS.items()},
    **{f"form, {name}": partial(m, 2, 3) for name, m in test_symplectic.LAYERS.items()},
    **{
        f"parameters, {name}": lambda make=make: OnVariables(make())
        for name, make in test_parameters.LAYERS.items()
    },
    **OTHERS,
}


def made(name):
    torch.manual_seed(0)
    return randomise(LAYERS[name](), 0.2, 1).eval()


def test_every_layer_is_met():
    kinds = {kind for name in nn.__all__ if inspect.isclass(kind := getattr(nn, name))}
    met = {kind for name in LAYERS for part in made(name).modules() for kind in type(part).__mro__}
    assert {kind for kind in kinds if issubclass(kind, torch.nn.Module)} - met == set()


@pytest.mark.parametrize("name", LAYERS)
def test_the_same_numbers_on_a_device(device, name):
    layer = made(name)
    x = sample(2, 3, dim_of(name, layer), seed=2, scale=0.5)
    there = assert_same_map(layer, x, device, transforms=name.startswith("volume"))
    if name.startswith("parameters"):  # what is made of a layer on the device stays there
        k = torch.tensor([0.3, -0.7], dtype=torch.float64)
        plain = there.at(k.to(device))
        assert_same(plain(x[..., :4].to(device)), layer.at(k)(x[..., :4]), device)


def dim_of(name, layer):
    return getattr(layer, "dim", 6 if name.startswith("parameters") else 4)
