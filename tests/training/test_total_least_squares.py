"""Generating functions of few pairs with noise on both states."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close
from vpintegrator.training.refinement import refine
from vpintegrator.training.total_least_squares import fit_total
from vpintegrator.training.training_data import TrainingData

NOISE, STEP, SPREAD, PAIRS = 0.01, 1.0, 0.06, 200


def measured(path, system, first, noise, seed):
    states = vp.solve(system, first, np.array([0.0, STEP]))
    states = states + noise * np.random.default_rng(seed).normal(size=states.shape)
    return vp.import_dataset(states, path, step=STEP, overwrite=True)


def solved(data, system, name, degree, refine):
    def make(arguments):
        return vp.models.build(system, name, **arguments)

    sizes = {"degree": degree}
    return vp.training.find_generating_function(make, data, sizes=sizes, refine=refine)


def slope(model):
    """Return 2 tan(angle / 2) of a rotation of the plane by a model."""
    z = torch.tensor([[[SPREAD, 0.0]]], dtype=torch.float64)
    derivative = torch.func.jacrev(lambda z: model(z[None])[0, 0])(z[0])[:, 0].detach()
    assert_close(derivative.det(), torch.ones(()).double(), 1e-12)
    sine, cosine = derivative[0, 1] - derivative[1, 0], derivative.trace()
    return 2 * np.tan(float(torch.atan2(sine, cosine)) / 2)


@pytest.mark.thorough
def test_noise_on_inputs_attenuates_the_solve_and_not_total_least_squares(tmp_path):
    """A midpoint of variance v has noise of half the variance, which divides v / (v + s² / 2)."""
    system, slopes, noises = vp.load_system("harmonic-oscillator"), [], []
    for seed in range(30):
        first = SPREAD * np.random.default_rng((1, seed)).normal(size=(PAIRS, 2))
        data = measured(tmp_path / "a.h5", system, first, NOISE, seed)
        models = [solved(data, system, "sgf", 2, refine).model for refine in (False, True)]
        slopes.append([slope(model) for model in models])
        noises.append([model.noise / NOISE for model in models])
    exact = 2 * np.tan(STEP / 2)
    error = np.mean(slopes, 0) / exact - 1
    deviation = np.std(slopes, 0, ddof=1) / exact / np.sqrt(len(slopes))
    middle = (SPREAD * np.cos(STEP / 2)) ** 2
    attenuation = middle / (middle + NOISE**2 / 2) - 1
    assert abs(error[0] - attenuation) < 3 * deviation[0] < abs(error[0])
    assert abs(error[1]) < 3 * deviation[1]
    # the residuals of the solve have the noise of the image and that of the state, mapped
    np.testing.assert_allclose(np.mean(noises, (0, 2)), [np.sqrt(2), 1.0], rtol=0.05)


@pytest.mark.parametrize(("name", "model"), [("pendulum", "sgf"), ("rigid-body", "vpgf")])
def test_few_pairs_are_refined(name, model, tmp_path):
    system = vp.load_system(name)
    first = system.sample_initial(120, np.random.default_rng(0))
    noisy = measured(tmp_path / "a.h5", system, first, NOISE, 0)
    found = solved(noisy, system, model, 4, True)
    assert (
        "refined by a fit to orbits of 1 step: distance from all orbits in units of the noise"
        in found.tried[-1]
    )
    assert found.model.posterior.errors == "states"
    np.testing.assert_allclose(found.model.noise, NOISE, rtol=0.25)
    plain = solved(noisy, system, model, 4, False)
    assert plain.model.posterior.errors == "images"


def test_exact_pairs_stay_as_they_are(tmp_path):
    system = vp.load_system("harmonic-oscillator")
    first = system.sample_initial(60, np.random.default_rng(0))
    exact = measured(tmp_path / "a.h5", system, first, 0.0, 0)
    found = solved(exact, system, "sgf", 2, True)
    assert "refined" not in found.tried[-1] and found.model.posterior is None
    z = torch.from_numpy(first)[:, None]
    with torch.no_grad():
        before = found.model(z)
        fit_total(found.model, TrainingData.of(exact))
        assert_close(found.model(z), before, 1e-12)


def test_all_known_pairs_have_a_part_in_the_noise(tmp_path):
    """The 70 training pairs alone are too few for 464 coefficients."""
    system = vp.load_system("rigid-body")
    first = system.sample_initial(100, np.random.default_rng(0))
    data = measured(tmp_path / "a.h5", system, first, 0.0, 0)
    assert solved(data, system, "vpgf", 16, False).error < 1e-9


def test_a_map_that_overflows_stays_as_it_is(tmp_path):
    system = vp.load_system("pendulum")
    first = system.sample_initial(60, np.random.default_rng(0))
    data = TrainingData.of(measured(tmp_path / "a.h5", system, first, NOISE, 0))
    model = solved(data.dataset, system, "sgf", 4, False).model
    with torch.no_grad():
        next(model.parameters()).mul_(1e6)
    before = [p.clone() for p in model.parameters()]
    found = refine(model, data)
    assert found.words.startswith("not refined")
    assert all(torch.equal(*each) for each in zip(before, model.parameters(), strict=True))
