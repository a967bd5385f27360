"""Maps of additive Hamiltonians: default parts, shared functions, machine code of a ring."""

import numpy as np
import torch

import vpintegrator as vp
from tests.nn.laws import randomise, sample, symplecticity_defect
from vpintegrator.compiled import CompiledModel

RING = [[[[i, -1.0], [(i + 1) % 16, 1.0]]] for i in range(16)]


def test_default_parts_are_components_and_differences():
    model = vp.models.AdditiveHamiltonianMap(dim=6, degree=3)
    assert [part.size for part in model.core.positions] == [3]
    assert sum(p.numel() for p in model.parameters()) == 6 * 3 + 3 * 2


def test_equal_parts_have_one_function():
    arguments = {"dim": 32, "parts": RING, "equal": [0] * 16, "equal_kinetic": [0] * 16}
    model = vp.models.AdditiveHamiltonianMap(**arguments, degree=4)
    assert sum(p.numel() for p in model.parameters()) == 4 + 2
    randomise(model, 0.3, 0)
    turn = torch.arange(16).roll(1)
    z = sample(3, 1, 32)
    turned = model(z[..., torch.cat([turn, turn + 16])])
    assert torch.allclose(turned, model(z)[..., torch.cat([turn, turn + 16])], atol=1e-13)


def test_components_and_distances_have_functions_of_their_own():
    parts = [[[[1, 1.0]]], [[[0, -1.0], [2, 1.0]], [[1, -1.0], [3, 1.0]]]]
    model = vp.models.AdditiveHamiltonianMap(dim=8, parts=parts, degree=3, variable="square")
    assert [part.variable for part in model.core.positions] == ["value", "square"]
    randomise(model, 0.3, 1)
    model.set_normalisation(sample(8), sample(8).abs() + 0.5)
    assert symplecticity_defect(lambda x: model(x), sample(1, 8)) < 1e-12


def test_machine_code_of_a_ring_of_sixteen():
    model = vp.models.AdditiveHamiltonianMap(dim=32, parts=RING, degree=6)
    randomise(model, 0.1, 2)
    model.set_advance(0.1)
    z = 0.3 * np.random.default_rng(0).normal(size=(4, 1, 32))
    code = CompiledModel(model)
    np.testing.assert_allclose(code.map(z), model.map(z), atol=1e-13)
