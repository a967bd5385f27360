"""Derivatives accumulated shear by shear, beside automatic differentiation."""

import pytest
import torch
from torch.func import functional_call, jacrev, vmap

import vpintegrator as vp
from vpintegrator.nn.shears import ShearDerivatives

FLIPS = [[[1.0, 0.0], [0.0, -1.0]], [[-1.0, 0.0], [0.0, 1.0]]]
SYMPLECTIC, VOLUME = vp.models.SymplecticFeedForward, vp.models.VolumePreservingFeedForward


@pytest.mark.parametrize(
    "cls, dim, arguments",
    [
        (SYMPLECTIC, 2, {"degree": 6}),
        (SYMPLECTIC, 4, {"degree": 4}),
        (SYMPLECTIC, 2, {"degree": 5, "periodic": [[0, 6.3]]}),
        (SYMPLECTIC, 2, {"degree": 6, "reversing_symmetries": FLIPS[:1]}),
        (SYMPLECTIC, 2, {"degree": 8, "reversing_symmetries": FLIPS}),
        (VOLUME, 3, {"degree": 4}),
        (VOLUME, 2, {"degree": 5, "reversing_symmetries": FLIPS[:1]}),
    ],
)
def test_accumulated_derivatives_are_those_of_autograd(cls, dim, arguments):
    torch.manual_seed(0)
    model = cls(dim=dim, functions="polynomial", depth=2, **arguments)
    for parameter in model.parameters():
        parameter.data = 0.1 * torch.randn_like(parameter)
    z = torch.randn(7, dim, dtype=torch.float64)
    derivatives = ShearDerivatives(model.core)
    images, jets = derivatives.images(z)
    D = derivatives.derivatives(jets)
    named = dict(model.core.named_parameters())

    def image(parameters, x):
        return functional_call(model.core, parameters, (x[None, None],))[0, 0]

    expected = vmap(jacrev(image), (None, 0))(named, z)
    expected = torch.cat([expected[name].flatten(2) for name in named], 2)
    torch.testing.assert_close(D, expected, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(images, model.core(z[:, None])[:, 0], rtol=1e-13, atol=1e-13)
