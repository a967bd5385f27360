"""The model split: built of a system, trained, saved, stepped by other steps, outside its data."""

from pathlib import Path

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close, randomise, sample
from vpintegrator.models import SplittingMap

PENDULUM = "z[1]**2/2 - cos(z[0])"
BENCHMARKS = Path(__file__).parents[2] / "scripts/benchmarks/systems"


def trained(system, path, stages=5):
    data = vp.generate(system, path, count=60, steps=10, seed=1)
    commutators = data.system.is_hamiltonian
    model = vp.models.build(data.system, "split", {"stages": stages, "commutators": commutators})
    history = vp.train(model, data, epochs=60)
    return model, data, history


def test_a_few_coefficients_suffice(tmp_path):
    model, _, history = trained("pendulum", tmp_path / "a.h5")
    assert model.structure.is_symplectic
    assert history.parameters == 9
    assert history.best_validation_error < 1e-8


def test_systems_of_shears_preserve_volume(tmp_path):
    model, data, _ = trained("rigid-body", tmp_path / "a.h5", 2)
    assert model.structure.keeps_volume and not model.structure.is_symplectic
    z = torch.from_numpy(data.states("test")[0, :1])
    D = torch.func.jacrev(lambda x: model(x[None])[0])(z[0])
    assert abs(D.det().item() - 1) < 1e-14


def test_machine_code_steps_alike(tmp_path):
    model, data, _ = trained("pendulum", tmp_path / "a.h5", 3)
    states = data.states("test")[:, :1]
    compiled = vp.compiled.CompiledModel(model, len(states), states)
    with torch.no_grad():
        expected = model(torch.from_numpy(states))[:, 0].numpy()
    assert np.abs(compiled.predict(states, 1)[0][:, -1] - expected).max() < 1e-14


def test_explicit_time(tmp_path):
    """Times beyond those of training change nothing: the functions are exact."""
    model, data, history = trained("chirped-pendulum", tmp_path / "a.h5")
    assert history.best_validation_error < 1e-6
    initial = data.states("test")[:4, 0].copy()
    initial[:, -1] += 20.0
    reference = vp.solve(data.system, initial, [0.0, data.step])[:, 1]
    found = model(torch.from_numpy(initial[:, None]))[:, 0].detach().numpy()
    assert np.abs(found - reference).max() < 1e-5


@pytest.mark.parametrize("stages", [1, 3])
def test_smaller_steps(stages):
    """Any coefficients give a method of order two or more: the error of a step falls as its cube"""
    model = SplittingMap(dim=2, hamiltonian=PENDULUM, stages=stages)
    model = randomise(model, 0.2, 1)
    z = sample(5, 1, 2)
    errors = []
    for step in (0.02, 0.01):
        one, half = model.with_step(step), model.with_step(step / 2)
        errors.append((one(z) - half(half(z))).norm().item())
        assert one.metadata["step"] == repr(step)
    assert 6 < errors[0] / errors[1] < 10


def beyond(system, count=200):
    """States outside the training domain: wider ellipses, wider gyrations at larger distances."""
    rng = np.random.default_rng(0)
    if system == "kepler":  # a from 0.8 to 1.2 and e up to 0.6 are inside
        a, e, u = (
            rng.uniform(1.4, 3.0, count),
            rng.uniform(0.1, 0.8, count),
            rng.uniform(-3, 3, count),
        )
        b = np.sqrt(1 - e**2)
        q = np.stack([a * (np.cos(u) - e), a * b * np.sin(u)], 1)
        p = np.stack([-np.sin(u), b * np.cos(u)], 1) / (np.sqrt(a) * (1 - e * np.cos(u)))[:, None]
        return np.concatenate([q, p], 1)
    rho, z = rng.uniform(0.9, 1.6, count), rng.uniform(-0.3, 0.3, count)
    return np.stack([rho, z, *rng.uniform(-0.2, 0.2, (2, count))], 1)


@pytest.mark.parametrize("system", ["kepler", "dipole"])
def test_errors_stay_outside_the_training_domain(system, tmp_path):
    """Coefficients belong to the equations: on other orbits errors are at most ten times larger."""
    file = {"dipole": BENCHMARKS / "dipole.toml"}.get(system, system)
    model, data, _ = trained(file, tmp_path / "a.h5")
    inside = data.states("test")[:, 0]
    errors = []
    for states in (inside, beyond(system)):
        image = vp.solve(data.system, states, [0.0, data.step])[:, 1]
        with torch.no_grad():
            found = model(torch.from_numpy(states[:, None]))[:, 0].numpy()
        errors.append(float(np.sqrt(((found - image) ** 2).sum(1).mean())))
    assert not np.asarray(model.in_domain(beyond(system))).all()
    assert errors[0] < 1e-7
    assert errors[1] < 10 * errors[0]


def test_units_are_those_of_the_model():
    model = SplittingMap(dim=2, hamiltonian=PENDULUM, stages=2)
    model.set_advance(0.1)
    z = sample(4, 1, 2)
    expected = model(z)
    model.set_normalisation([0.3, 0.0], [2.0, 0.5])
    assert_close(model(z), expected, 1e-14)
