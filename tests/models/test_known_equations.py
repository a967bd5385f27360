"""The model split: built of a system, trained, stepped, outside their data."""

from pathlib import Path

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close, determinant_error, randomise, sample
from vpintegrator.models import SplittingMap

PENDULUM = "z[1]**2/2 - cos(z[0])"
BENCHMARKS = Path(__file__).parents[2] / "scripts/benchmarks/systems"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    def make(system, stages=5):
        path = tmp_path_factory.mktemp("split") / "a.h5"
        data = vp.generate(system, path, count=60, steps=10, seed=1)
        arguments = {"stages": stages, "commutators": data.system.is_hamiltonian}
        model = vp.models.build(data.system, "split", arguments)
        return model, data, vp.train(model, data, epochs=60)

    return make


def same_code(model, windows, calls=1):
    """The machine code of a model, which gives what PyTorch gives."""
    machine = vp.compiled.CompiledModel(model, len(windows), windows)
    expected = torch.from_numpy(windows)
    for _ in range(calls):
        expected = model(expected).detach()
    assert_close(torch.from_numpy(machine.predict(windows, calls)[0][:, -1:]), expected, 1e-12)
    return machine


def test_a_few_coefficients_suffice(trained):
    model, data, history = trained("pendulum")
    assert model.structure.is_symplectic
    assert history.parameters == 9
    assert history.best_validation_error < 1e-8
    same_code(model, data.states("test")[:, :1])


def test_systems_of_shears_preserve_volume(trained):
    model, data, _ = trained("rigid-body", 2)
    assert model.structure.keeps_volume and not model.structure.is_symplectic
    assert determinant_error(model, torch.from_numpy(data.states("test")[0, :1])) < 1e-14


def test_explicit_time(trained):
    """Times beyond those of training change nothing: the functions are exact."""
    model, data, history = trained("chirped-pendulum")
    assert history.best_validation_error < 1e-6
    initial = data.states("test")[:4, 0].copy()
    initial[:, -1] += 20.0
    reference = vp.solve(data.system, initial, [0.0, data.step])[:, 1]
    assert np.abs(model.map(initial[:, None])[:, 0] - reference).max() < 1e-5


@pytest.mark.parametrize("stages", [1, 3])
def test_smaller_steps(stages):
    """Any coefficients give a method of order two or more: the error of a step falls as its cube"""
    model = randomise(SplittingMap(dim=2, hamiltonian=PENDULUM, stages=stages), 0.2, 1)
    z = sample(5, 1, 2)
    errors = []
    for step in (0.02, 0.01):
        one, half = model.with_step(step), model.with_step(step / 2)
        errors.append((one(z) - half(half(z))).norm().item())
        assert one.step == step
    assert 6 < errors[0] / errors[1] < 10


def beyond(system, count=200):
    """States outside the training domain: wider ellipses, wider gyrations at larger distances."""
    rng = np.random.default_rng(0)
    if system == "kepler":  # a from 0.8 to 1.2 and e up to 0.6 are inside
        bounds = ([1.4, 0.1, -3], [3.0, 0.8, 3])
        a, e, u = rng.uniform(*bounds, (count, 3)).T
        b = np.sqrt(1 - e**2)
        q = np.stack([a * (np.cos(u) - e), a * b * np.sin(u)], 1)
        p = np.stack([-np.sin(u), b * np.cos(u)], 1) / (np.sqrt(a) * (1 - e * np.cos(u)))[:, None]
        return np.concatenate([q, p], 1)
    return rng.uniform([0.9, -0.3, -0.2, -0.2], [1.6, 0.3, 0.2, 0.2], (count, 4))


@pytest.mark.parametrize("system", ["kepler", "dipole"])
def test_errors_stay_outside_the_training_domain(system, trained):
    """Coefficients belong to the equations: on other orbits errors are at most ten times larger."""
    model, data, _ = trained({"dipole": BENCHMARKS / "dipole.toml"}.get(system, system))
    errors = []
    for states in (data.states("test")[:, 0], beyond(system)):
        image = vp.solve(data.system, states, [0.0, data.step])[:, 1]
        difference = model.map(states[:, None])[:, 0] - image
        errors.append(float(np.sqrt((difference**2).sum(1).mean())))
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
