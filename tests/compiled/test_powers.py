"""Sums of polynomials of one variable, in powers of it."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.compiled import CompiledModel
from vpintegrator.compiled.powers import in_powers, operations
from vpintegrator.compiled.tracing import trace


def model(degree=9, size=0.1, **options):
    torch.manual_seed(0)
    options = {"functions": "polynomial", "degree": degree, "depth": 3} | options
    made = vp.models.SymplecticFeedForward(dim=2, **options)
    made.set_normalisation(torch.tensor([0.5, -0.2]), torch.tensor([0.5, 2.0]))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(size * 0.4 ** torch.arange(len(p)) * torch.randn(len(p), generator=generator))
    return made


FLIP = [[[1, 0], [0, -1]]]


@pytest.mark.parametrize("options", [{}, {"reversing_symmetries": FLIP}, {"degree": 4}])
def test_operations_are_fewer_and_the_map_is_the_same(options):
    made = model(**options)
    plain = trace(made, frozen=True)
    found = in_powers(plain, plain.values(made))
    assert operations(found) < 0.6 * operations(plain)
    machine = CompiledModel(made)
    assert machine.source.operations <= operations(found)
    z = np.random.default_rng(0).normal(size=(50, 1, 2)) * [0.5, 2.0] + [0.5, -0.2]
    states = machine.predict(z, 5)[0][:, -1]
    expected = torch.from_numpy(z)
    for _ in range(5):
        expected = made(expected).detach()
    np.testing.assert_allclose(states, expected[:, 0].numpy(), rtol=1e-12, atol=1e-13)


def test_harmonics_of_an_angle_are_polynomials_of_its_cosine():
    torch.manual_seed(0)
    made = vp.models.SymplecticFeedForward(
        dim=2, functions="polynomial", degree=6, depth=2, periodic={0: 2 * np.pi}
    )
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(0.02 * torch.randn(p.shape))
    plain = trace(made, frozen=True)
    found = in_powers(plain, plain.values(made))
    assert operations(found) < 0.5 * operations(plain)
    z = np.random.default_rng(0).normal(size=(50, 1, 2)) * 2
    states, expected = CompiledModel(made).predict(z, 3)[0][:, -1], torch.from_numpy(z)
    for _ in range(3):
        expected = made(expected).detach()
    np.testing.assert_allclose(states, expected[:, 0].numpy(), rtol=1e-12, atol=1e-13)


def test_couplings_of_several_variables_are_nested():
    body = vp.load_system("rigid-body")
    made = vp.models.build(body, arguments={"functions": "polynomial", "degree": 8, "depth": 3})
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(0.01 * torch.randn(p.shape, generator=generator))
    plain = trace(made, frozen=True)
    assert operations(in_powers(plain, plain.values(made))) < 0.8 * operations(plain)
    z = body.sample_initial(20, np.random.default_rng(0))[:, None]
    states = CompiledModel(made).predict(z, 1)[0]
    np.testing.assert_allclose(states, made(torch.from_numpy(z)).detach(), rtol=1e-13, atol=1e-14)
