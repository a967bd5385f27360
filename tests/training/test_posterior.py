"""Gaussian posterior of generating functions from noisy states."""

import numpy as np
import pytest
import safetensors.torch
import torch
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.training.orbits import Segments
from vpintegrator.training.posterior import NormalEquations, estimate, regularise
from vpintegrator.training.training_data import TrainingData

NOISE = 0.01


@pytest.fixture
def noisy(tmp_path):
    return vp.generate(
        "pendulum", tmp_path / "p.h5", count=30, steps=10, step=0.2, observation={"noise": NOISE}
    )


@pytest.fixture
def model(noisy):
    model = vp.models.build(noisy.system, "sgf", degree=4)
    vp.train(model, noisy, optimizer="linear")
    return model


def test_the_posterior_is_that_of_bayesian_regression():
    rng = np.random.default_rng(0)
    weights, truth = np.array([1.0, 4.0, 9.0]), np.array([1.0, -0.3, 0.05])
    A = rng.normal(size=(60, 2, 3))
    y = A @ truth + np.array([0.1, 0.3]) * rng.normal(size=(60, 2))
    start = np.array([0.9, -0.2, 0.1])
    sums = NormalEquations.zero(2, 3)
    sums.add(*map(torch.from_numpy, (A, y - A @ start)))
    found = estimate(sums, start, weights)
    assert found is not None
    assert np.abs(found.noise / [0.1, 0.3] - 1).max() < 0.25
    rows, scale = A.reshape(-1, 3), np.tile(found.noise, 60)

    def evidence(logarithm):
        prior = np.diag(10.0**-logarithm / weights**2)
        return -multivariate_normal.logpdf(
            y.ravel(), np.zeros(120), rows @ prior @ rows.T + np.diag(scale**2)
        )

    precision = 10.0 ** minimize_scalar(evidence, bounds=(-4, 4), method="bounded").x
    normal = rows.T @ (rows / scale[:, None] ** 2) + precision * np.diag(weights**2)
    mean = np.linalg.solve(normal, rows.T @ (y.ravel() / scale**2))
    np.testing.assert_allclose(found.factor @ found.factor.T, np.linalg.inv(normal), rtol=0.05)
    np.testing.assert_allclose(found.mean, mean, rtol=0.02)


def test_errors_of_the_degree_are_not_taken_for_noise(tmp_path):
    """Exact states of one orbit in four dimensions do not determine coefficients of degree 4."""
    t = np.linspace(0, 20, 101)[:, None]
    orbit = np.hstack([np.sin(t), np.cos(t), np.sin(0.7 * t), np.exp(np.cos(0.7 * t))])
    dataset = vp.import_dataset(
        orbit, tmp_path / "orbit.h5", step=0.2, structure="volume-preserving", fractions=(1, 0, 0)
    )
    model = vp.models.build(dataset.system, "vpgf", degree=4)
    vp.train(model, dataset, optimizer="linear")
    assert model.posterior is None


def test_draws_keep_the_structure_and_depend_on_the_seed_alone(model):
    draws, fewer = model.sample(3), model.sample(2)
    z = torch.tensor([[[0.5, 0.3]]], dtype=torch.float64)
    for drawn in draws:
        jacobian = torch.func.jacrev(lambda z, drawn=drawn: drawn(z[None, None])[0, 0])(z[0, 0])
        assert abs(jacobian.det().item() - 1) < 1e-12
        assert drawn.posterior is None and not torch.equal(drawn(z), model(z))
    assert all(torch.equal(a(z), b(z)) for a, b in zip(draws, fewer, strict=False))
    assert not torch.equal(model.sample(1, seed=1)[0](z), draws[0](z))
    assert draws[1].metadata["draw"] == "2 of seed 0"


def test_noise_of_pairs_is_that_of_both_states(model):
    np.testing.assert_allclose(model.noise, np.sqrt(2) * NOISE, rtol=0.15)


def test_the_spread_of_draws_is_the_error_of_the_map(noisy, model):
    states = noisy.system.sample_initial(50, np.random.default_rng(3))
    exact = vp.solve(noisy.system, states, np.array([0.0, 0.2]))[:, 1]
    window = torch.from_numpy(states)[:, None]
    with torch.no_grad():
        draws = torch.stack([each(window)[:, 0] for each in model.sample(40)]).numpy()
        error = np.abs(model(window)[:, 0].numpy() - exact).mean()
    assert 0.3 < draws.std(0).mean() / error < 3


def test_a_file_holds_the_posterior(tmp_path, model):
    vp.save(model, tmp_path / "m.safetensors")
    loaded = vp.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.noise, model.noise)
    z = torch.tensor([[[0.5, 0.3]]], dtype=torch.float64)
    assert torch.equal(loaded.sample(1)[0](z), model.sample(1)[0](z))


@pytest.mark.parametrize("damage", ["missing", "shape", "number", "text"])
def test_a_damaged_posterior_is_refused(tmp_path, model, damage):
    path = tmp_path / "m.safetensors"
    vp.save(model, path)
    with safetensors.safe_open(path, "pt") as file:
        tensors, header = {k: file.get_tensor(k) for k in file.keys()}, file.metadata()  # noqa: SIM118
    if damage == "missing":
        del tensors["posterior.factor"]
    elif damage == "shape":
        tensors["posterior.mean"] = tensors["posterior.mean"][:1].clone()
    elif damage == "number":
        tensors["posterior.noise"][0] = np.nan
    else:
        header["posterior"] = '{"errors": []}'
    safetensors.torch.save_file(tensors, path, header)
    with pytest.raises(InputError, match="posterior"):
        vp.load(path)


def test_models_without_posterior_say_so(tmp_path):
    exact = vp.generate("pendulum", tmp_path / "exact.h5", count=20, steps=10)
    model = vp.models.build(exact.system, "sgf", degree=6)
    vp.train(model, exact, optimizer="linear")
    assert model.noise is None
    with pytest.raises(InputError, match="holds no posterior"):
        model.sample(2)


def test_a_posterior_of_other_coefficients_is_refused(model):
    with torch.no_grad():
        next(model.parameters()).add_(1e-3)
    with pytest.raises(InputError, match="changed after"):
        model.sample(2)


@pytest.mark.parametrize("n", [0, 1.5, "2"])
def test_the_number_of_draws_is_checked(model, n):
    with pytest.raises(InputError, match="n = "):
        model.sample(n)


def test_orbits_give_the_noise_of_all_states(noisy, model):
    vp.training.fit_orbits(model, noisy, 5, epochs=2)
    assert model.posterior.errors == "states"
    np.testing.assert_allclose(model.noise, NOISE, rtol=0.15)
    assert "all states" in model.posterior.words


def test_coefficients_fitted_to_orbits_are_the_mean_of_their_posterior(tmp_path):
    """Also where the orbits leave combinations of coefficients undetermined."""
    observed = {"observation": {"noise": NOISE}}
    data = vp.generate("rigid-body", tmp_path / "r.h5", count=60, steps=3, step=0.2, **observed)
    model = vp.models.build(data.system, "vpgf", degree=4)
    vp.train(model, data, optimizer="linear")
    vp.training.fit_orbits(model, data, 3)
    values = model.posterior.mean
    segments = Segments.of(model, TrainingData(data), "train", 3)
    segments.settled(values)
    for _ in range(2):  # the first time for the noise
        found = regularise(model, segments, values)
    deviations = np.linalg.lstsq(found.factor, values.numpy() - found.mean)[0]
    assert np.linalg.norm(deviations) < 0.1
    spread = np.linalg.norm(found.factor, axis=1)
    np.testing.assert_allclose(model.posterior.factor.norm(dim=1), spread, rtol=0.02)
