"""Sums of polynomials of a few variables, in powers of these."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.compiled import CompiledModel
from vpintegrator.compiled.powers import in_powers, operations
from vpintegrator.compiled.tracing import trace

from .conftest import assert_same_map, windows


def polynomials(dim=2, **options):
    torch.manual_seed(0)
    return vp.models.SymplecticFeedForward(dim=dim, functions="polynomial", **options)


FLIP = [[[1, 0], [0, -1]]]
CASES = {  # a model, the size of its weights, and the largest share of operations left
    "one variable": (lambda: polynomials(degree=9, depth=3), 0.01, 0.6),
    "reversible": (lambda: polynomials(degree=9, depth=3, reversing_symmetries=FLIP), 0.01, 0.6),
    "few powers": (lambda: polynomials(degree=4, depth=3), 0.01, 0.6),
    # harmonics of an angle are polynomials of its cosine
    "angles": (lambda: polynomials(degree=6, depth=2, periodic={0: 2 * np.pi}), 0.02, 0.5),
    "several variables, nested": (
        lambda: vp.models.build(
            vp.load_system("rigid-body"),
            arguments={"functions": "polynomial", "degree": 8, "depth": 3},
        ),
        0.01,
        0.8,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operations_are_fewer_and_the_map_is_the_same(name):
    make, size, share = CASES[name]
    model = make()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(size * torch.randn(p.shape, generator=generator))
    if name != "angles":
        model.set_normalisation(torch.full((model.dim,), 0.5), torch.full((model.dim,), 2.0))
    plain = trace(model, frozen=True)
    found = in_powers(plain, plain.values(model))
    assert operations(found) < share * operations(plain)
    machine = CompiledModel(model)
    assert machine.source.operations <= operations(found)
    assert_same_map(machine, model, windows(model, 50), calls=5)
