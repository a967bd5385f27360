"""Fitting maps to segments of noisy orbits."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close
from vpintegrator.data import ExtendedDataset
from vpintegrator.errors import InputError
from vpintegrator.training.orbits import Segments
from vpintegrator.training.training_data import TrainingData

NOISE = 0.02


def clean_error(model):
    system = vp.load_system("pendulum")
    z = system.sample_initial(10, np.random.default_rng(3))
    exact = vp.solve(system, z, np.arange(0, 20.05, 0.1))
    states = vp.rollout(model, z, 200, compiled=False)
    return float(np.median(vp.rollout.root_mean_square_error(states, exact)))


@pytest.fixture
def noisy(tmp_path):
    return vp.generate(
        "pendulum",
        tmp_path / "noisy.h5",
        count=20,
        steps=60,
        step=0.1,
        observation={"relative_noise": NOISE},
    )


@pytest.mark.thorough
def test_segments_tell_more_than_pairs(noisy):
    torch.manual_seed(0)
    model = vp.models.build(noisy.system, functions="polynomial", degree=3, depth=2)
    vp.train(model, noisy, epochs=40, progress=False, compiled=False)
    before = clean_error(model)
    fit = vp.training.fit_orbits(model, noisy, 20, epochs=5)
    assert clean_error(model) < before / 2
    assert fit.training[-1] == pytest.approx(NOISE, rel=0.1)
    assert fit.validation[fit.best - 1] == pytest.approx(NOISE, rel=0.15)
    assert np.all(np.diff(fit.training) <= 0)
    assert "20 steps" in model.metadata["orbits"]


@pytest.mark.thorough
def test_pairs_of_neighbours_become_orbits_again(tmp_path):
    generator, system = np.random.default_rng(0), vp.load_system("pendulum")
    rows = ["trajectory,t,q,p"]
    for n in range(8):
        times = np.cumsum(generator.uniform(0.05, 0.3, 41))
        states = vp.solve(system, system.sample_initial(1, generator), times)[0]
        rows += [f"{n},{t},{q},{p}" for t, (q, p) in zip(times, states, strict=True)]
    (tmp_path / "seen.csv").write_text("\n".join(rows))
    data = vp.import_dataset(tmp_path / "seen.csv", tmp_path / "seen.h5", system="pendulum")
    assert data.is_family
    model = vp.models.build(ExtendedDataset(data).system, functions="polynomial", degree=4, depth=2)
    vp.train(model, data, epochs=15, progress=False, compiled=False)
    fit = vp.training.fit_orbits(model, data, 10, epochs=3)
    assert fit.segments[0] == 4 * (data.shapes["train"][0] // 40)
    assert fit.training[-1] < 1e-3
    with pytest.raises(InputError, match="of one set of parameters"):
        vp.compare(model.at(step=0.1), dataset=data, reference="dataset")


@pytest.mark.parametrize(
    ("system", "name", "options"),
    [
        ("pendulum", "sgf", {"repeats": 2}),
        ("rigid-body", "vpgf", {}),
        ("forced-pendulum", "sgf", {}),  # of explicit time
        ("hill-vortex", "vpgf", {}),  # in a chart
    ],
)
def test_derivatives_of_maps_given_by_equations(system, name, options, tmp_path):
    seen = {"observation": {"relative_noise": 0.001}}
    data = vp.generate(system, tmp_path / "noisy.h5", count=20, steps=6, **seen)
    model = vp.models.build(data.system, name, degree=4, **options)
    vp.train(model, data)
    segments = Segments.of(model, TrainingData(data), "train", 3)
    theta, first, seen = segments.parameters.read(), segments.first[:2], segments.seen[:2]
    found = segments.derivatives(theta, first, seen, segments.residuals(theta, first, seen))
    for own, other in zip(found, segments.automatic(theta, first, seen), strict=True):
        assert_close(own, other, 1e-10 * float(other.abs().max()))


def test_what_cannot_be_fitted_is_said(noisy):
    with pytest.raises(InputError, match="no orbit has 500 steps"):
        vp.training.fit_orbits(vp.models.build(noisy.system), noisy, 500)
    with pytest.raises(InputError, match="one-step"):
        vp.training.fit_orbits(vp.models.build(noisy.system, window=3), noisy, 5)


def test_beyond_the_first_iteration_a_budget_holds_within_one(tmp_path):
    """With no second left one iteration of the first stage is made."""
    noisy = vp.generate(
        "pendulum", tmp_path / "noisy.h5", count=20, steps=20, observation={"noise": 0.01}
    )
    model = vp.models.VolumePreservingFeedForward(dim=2, functions="polynomial", degree=3)
    vp.train(model, noisy, epochs=5)
    fit = vp.training.fit_orbits(model, noisy, length=8, seconds=0.0)
    assert len(fit.training) == len(fit.validation) == 1
    assert fit.length == 2


def test_components_are_weighted_by_their_noise(tmp_path):
    noise = [0.002, 0.05]
    data = vp.generate(
        "pendulum", tmp_path / "a.h5", count=90, steps=5, step=0.5, observation={"noise": noise}
    )
    model = vp.models.build(data.system, "sgf", degree=4)
    vp.train(model, data, optimizer="linear")
    vp.training.fit_orbits(model, data, 5)
    np.testing.assert_allclose(model.noise, noise, rtol=0.2)
