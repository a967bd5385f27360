"""The model of two steps: symmetries, momenta, starts, machine code, families, files."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close, sample
from vpintegrator.compiled import CompiledModel
from vpintegrator.dynamics.structure import own_form_defect, reversibility_defect
from vpintegrator.errors import InputError
from vpintegrator.maps.map import differences
from vpintegrator.models import DiscreteLagrangianMap

ONE, TWO = np.eye(1), np.eye(2)
TURN = 2 * np.pi
CASES = {
    "plain": {"dim": 2, "degree": 4},
    "reversible": {"dim": 2, "degree": 4, "reversing_symmetries": [TWO]},
    "mirrored": {"dim": 2, "degree": 4, "reversing_symmetries": [TWO, np.diag([-1.0, 1])]},
    "exchanged": {"dim": 2, "degree": 4, "reversing_symmetries": [TWO, TWO[::-1].copy()]},
    "magnetic": {"dim": 2, "degree": 4, "reversing_symmetries": [np.diag([-1.0, 1])]},
    "angle": {"dim": 1, "degree": 5, "periodic": [(0, TURN)], "reversing_symmetries": [ONE]},
    "beside an angle": {"dim": 2, "degree": 3, "periodic": [(1, 360.0)]},
    "cyclic": {"dim": 2, "degree": 4, "cyclic": [1], "reversing_symmetries": [TWO]},
}


def made(seed=0, size=2e-4, step=0.1, **arguments):
    model = DiscreteLagrangianMap(**arguments)
    generator = torch.Generator().manual_seed(seed)
    model.set_normalisation([0.3, -0.2][: model.dim], [2.0, 0.5][: model.dim])
    k = sample(50, model.parameter_count) if model.parameter_count else None
    model.adapt(model.shift + model.scale * sample(50, model.dim), k)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(size * torch.randn(p.shape, generator=generator, dtype=torch.float64))
    model.origin = vp.models.Origin(step=step)
    return model.eval()


def windows_of(model, count=6, seed=0):
    own = sample(count, 2, model.dim, seed=seed, scale=0.2)
    return (model.shift + model.scale * own).numpy()


@pytest.mark.parametrize("case", CASES)
def test_structure(case):
    model = made(**CASES[case])
    windows = windows_of(model)
    assert model.structure.form == "lagrangian" and model.invertible
    assert not model.structure.keeps_volume and not model.measure_preserving
    assert own_form_defect(model, windows) < 1e-12
    rhos = model.structure.reversing_symmetries
    assert len(rhos) == len(CASES[case].get("reversing_symmetries", ()))
    assert (reversibility_defect(model, windows, rhos) or 0.0) < 1e-12
    rebuilt = torch.from_numpy(model.map(windows))
    assert_close(
        model.inverse(rebuilt), torch.from_numpy(windows), 1e-12 * float(model.scale.max())
    )


def test_a_map_without_the_form_has_a_defect():
    model, other = made(dim=2, degree=4, size=2e-3), made(dim=2, degree=4, size=2e-3, seed=1)
    other.own_form = model.own_form
    assert own_form_defect(other, windows_of(other)) > 1e-4


@pytest.mark.parametrize("case", CASES)
def test_machine_code_gives_the_same_map(case):
    model = made(**CASES[case])
    windows = windows_of(model)
    states, _ = CompiledModel(model, 6).predict(windows, 4)
    expected = next(model.advance(windows, 4))
    assert_close(torch.from_numpy(states), torch.from_numpy(expected), 1e-11)


@pytest.mark.parametrize("case", CASES)
def test_starts_from_momenta_and_velocities(case):
    model = made(**CASES[case])
    windows = windows_of(model)
    scale = model.scale.numpy()
    ends, p, u = windows[:, 1], model.momenta(windows), model.velocities(windows)
    assert p.shape == u.shape == ends.shape
    assert np.abs((model.start(ends, momenta=p) - windows) / scale).max() < 1e-13
    assert np.abs((model.start(ends, velocities=u) - windows) / scale).max() < 1e-12


def test_momenta_are_conjugate_to_the_components_of_states():
    """The form of (q_n, p_n), dq ^ dp, is the model's own; whatever the units of components."""
    model = made(**CASES["plain"])
    model.momentum_unit.fill_(3.0)
    window = windows_of(model, 1)

    def canonical(flat):
        flat = flat.reshape(-1, 2, 2)
        return np.concatenate([flat[:, 1], model.momenta(flat)], 1)

    D = differences(canonical, window.reshape(1, 4))[0]
    J = vp.nn.canonical_form(4).numpy()
    form = model.own_form(window)[0]
    assert np.abs(D.T @ J @ D - form).max() < 1e-7 * np.abs(form).max()


def test_momentum_of_a_cyclic_component_is_conserved():
    model = made(**CASES["cyclic"], size=5e-4)
    window = windows_of(model, 3)
    p = [model.momenta(window)]
    for _ in range(5):
        window = model.map(window)
        p.append(model.momenta(window))
    p = np.stack(p)
    assert np.abs(p[:, :, 1] - p[0, :, 1]).max() < 1e-13
    assert np.ptp(p[:, :, 0], 0).max() > 1e-6


def test_null_lagrangians_are_left_out():
    """Without symmetries no combination of the terms leaves the equations as they are."""
    for arguments in (CASES["plain"], {"dim": 2, "degree": 4, "periodic": [(0, TURN)]}):
        model = made(**arguments)
        q = sample(400, 3, 2)
        matrix, _ = model.core.equations(q[:, :2].flatten(1), q[:, 1:].flatten(1))
        sizes = torch.linalg.svdvals(matrix.flatten(0, 1) / matrix.flatten(0, 1).norm(dim=0))
        assert sizes[-1] > 1e-8 * sizes[0]


def test_a_family_has_members():
    family = made(dim=2, degree=3, parameters=1, reversing_symmetries=[np.eye(3)])
    family.set_parameter_normalisation(torch.tensor([[0.4], [0.6]]).double())
    windows = torch.from_numpy(windows_of(family))
    k = family.coefficients(torch.tensor([0.55]).double())
    member = family.core.at(k.detach())
    x = family.coordinates(windows)
    assert_close(member(x), family.core(x, k.expand(6, 1)), 1e-13)
    assert family.momenta(windows.numpy(), torch.tensor([0.55])).shape == (6, 2)


def test_files(tmp_path):
    model = made(**CASES["angle"])
    model.momentum_unit.fill_(2.5)
    vp.save(model, tmp_path / "a.safetensors")
    again = vp.load(tmp_path / "a.safetensors")
    windows = windows_of(model)
    assert np.array_equal(again.map(windows), model.map(windows))
    assert np.array_equal(again.momenta(windows), model.momenta(windows))


def test_linear_damping_keeps_no_form():
    model = made(dim=2, degree=3, damping="linear", reversing_symmetries=[TWO])
    assert model.structure.form == "none" and not model.structure.reversing_symmetries
    windows = torch.from_numpy(windows_of(model))
    assert_close(model.inverse(model(windows)), windows, 1e-12)


def test_mistakes():
    model = made(**CASES["plain"])
    with pytest.raises(InputError, match="either momenta or velocities"):
        model.start([[0.0, 0.0]])
    with pytest.raises(InputError, match="sign flips"):
        DiscreteLagrangianMap(dim=2, reversing_symmetries=[[[0.6, 0.8], [0.8, -0.6]]])
    with pytest.raises(InputError, match="window must be 2, not 3"):
        vp.models.build(vp.load_system("pendulum"), "lagrangian", {"window": 3})
