"""Maps of additive Hamiltonians: default parts, shared functions, machine code of a ring."""

import numpy as np
import pytest
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


VORTICES = [
    [[[i, -1.0], [j, 1.0]], [[3 + i, -1.0], [3 + j, 1.0]]] for i, j in ((0, 1), (0, 2), (1, 2))
]


def test_joint_parts_keep_the_form_the_step_and_the_centre(tmp_path):
    arguments = {"parts": [*VORTICES, [[[2, 1.0]]]], "joint": True, "degree": 4}
    model = vp.models.AdditiveHamiltonianMap(dim=6, **arguments, variable="square")
    randomise(model, 0.2, 3)
    model.set_normalisation(sample(6), 0.5 + sample(6, seed=2).abs())
    model.set_advance(0.1)
    z = sample(4, 1, 6, seed=1)
    assert symplecticity_defect(model, z[0]) < 1e-12
    moved = (model(z) - z).detach()[:, 0]
    assert float(moved[:, :3].sum(1).abs().max()) < 1e-12  # the parts leave it, or move momenta
    path = tmp_path / "vortices.safetensors"
    vp.save(model, path)
    np.testing.assert_array_equal(vp.load(path).map(z.numpy()), model.map(z.numpy()))
    code = CompiledModel(model)
    np.testing.assert_allclose(code.map(z.numpy()), model.map(z.numpy()), atol=1e-13)


def test_joint_parts_have_no_kinetic_energy_beside_them():
    with pytest.raises(vp.InputError, match="no kinetic energy"):
        vp.models.AdditiveHamiltonianMap(dim=6, parts=VORTICES, joint=True, kinetic=[[[[0, 1.0]]]])


def test_a_field_keeps_the_volume_and_energy_of_velocities():
    arguments = {"parts": [[[[0, 1.0]]]], "turning": [[[[0, 1.0], [1, 2.0]]]], "degree": 4}
    model = vp.models.AdditiveHamiltonianMap(dim=4, **arguments)
    randomise(model, 0.3, 4)
    model.set_advance(0.1)
    assert not model.structure.is_symplectic and model.structure.keeps_volume
    z = sample(4, 1, 4, seed=1)
    code = CompiledModel(model)
    np.testing.assert_allclose(code.map(z.numpy()), model.map(z.numpy()), atol=1e-13)
    with torch.no_grad():
        model.core.positions[0].coefficients.zero_()  # no force: speeds stay
    speeds = [states[..., 2:].square().sum(-1) for states in (z, model(z).detach())]
    assert torch.allclose(*speeds, atol=1e-13)
