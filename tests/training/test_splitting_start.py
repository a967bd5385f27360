"""Polynomials that begin as a splitting: the classical method itself, before any training."""

import math

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.training.splitting_start import begin_as_splitting
from vpintegrator.training.training_data import TrainingData


@pytest.fixture(scope="module", params=["henon-heiles", "kepler", "toda"])
def data(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("splitting") / f"{request.param}.h5"
    dataset = vp.generate(request.param, path, count=20, steps=10, step=0.05)
    return TrainingData(dataset)


def made(data, **arguments):
    model = vp.models.build(
        data.dataset.system, "spff", functions="polynomial", **{"degree": 12, **arguments}
    )
    data.normalise(model)
    return model


@pytest.mark.parametrize("depth", [1, 3])
def test_a_reversible_model_begins_as_stoermer_verlet(data, depth):
    degree = 4 if data.dataset.dim == 4 and not made(data, degree=3).bodies else 12
    model = made(data, depth=depth, degree=degree)
    assert begin_as_splitting(model, data, "strang-splitting").misfit < 1e-6
    system, h = data.dataset.system, data.dataset.step
    states = data.dataset.states("test")[:, 0]
    substeps = 2 * depth - 1
    # with the kick first, where the method of the package begins with the drift
    swapped = _kick_drift_kick(system, states, h / substeps, substeps)
    found = model(torch.from_numpy(states[:, None]))[:, 0].detach().numpy()
    np.testing.assert_allclose(found, swapped, rtol=0, atol=1e-6 * h * np.abs(states).max())


def _kick_drift_kick(system, z, h, steps):
    n = system.dim // 2
    q, p = z[:, :n].copy(), z[:, n:].copy()
    for _ in range(steps):
        p += h / 2 * system.vector_field(np.concatenate([q, p], 1))[:, n:]
        q += h * system.vector_field(np.concatenate([q, p], 1))[:, :n]
        p += h / 2 * system.vector_field(np.concatenate([q, p], 1))[:, n:]
    return np.concatenate([q, p], 1)


def test_shares_of_an_irreversible_model_add_up_to_a_step(data):
    model = made(data, depth=2, reversible=False)
    before = data.test_error(model)
    assert begin_as_splitting(model, data).misfit < 1e-6
    assert data.test_error(model) < 0.5 * before


def test_a_model_that_errs_less_stays_as_it_is(data):
    model = made(data, depth=2)
    begin_as_splitting(model, data)
    better = vp.training.train(model, data.dataset, epochs=5, progress=False)
    assert math.isfinite(better.best_validation_error)
    own = [parameter.clone() for parameter in model.parameters()]
    assert begin_as_splitting(model, data).misfit == math.inf
    assert all(map(torch.equal, own, model.parameters()))


def test_neurons_and_other_layers_begin_near_the_identity(data):
    for name, arguments in (("spff", {"functions": "neurons"}), ("vpff", {})):
        model = vp.models.build(data.dataset.system, name, **arguments)
        data.normalise(model)
        assert begin_as_splitting(model, data).misfit == math.inf


def test_measured_states_are_fitted_by_their_differences(tmp_path):
    t = np.arange(200) * 0.1
    phase = np.linspace(0, 6, 12)[:, None] + t
    states = np.stack([np.cos(phase), -np.sin(phase)], -1)
    dataset = vp.data.import_dataset(states, tmp_path / "a.h5", step=0.1, components=["q", "p"])
    data = TrainingData(dataset)
    model = vp.models.SymplecticFeedForward(dim=2, functions="polynomial", degree=2, depth=2)
    data.normalise(model)
    before = data.test_error(model)
    assert begin_as_splitting(model, data).misfit < 1e-2
    assert data.test_error(model) < 0.2 * before
