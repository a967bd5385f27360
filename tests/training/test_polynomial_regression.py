"""Polynomial regression against NumPy's polynomials and least squares."""

import numpy as np
import pytest
import torch
from numpy.polynomial.chebyshev import chebvander2d

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.training.kinds.kind import Budget
from vpintegrator.training.kinds.regression import PolynomialRegression
from vpintegrator.training.regression import PENALTIES, descend, fit_polynomial
from vpintegrator.training.training_data import TrainingData


def henon(z):
    return np.stack([1 - 1.4 * z[:, 0] ** 2 + z[:, 1], 0.3 * z[:, 0]], 1)


def fitted(before, after, degree, **options):
    model = vp.models.PolynomialMap(dim=before.shape[1], degree=degree)
    z, y = torch.from_numpy(before), torch.from_numpy(after)
    model.set_normalisation(z.mean(0), z.std(0))
    model.adapt(z)
    return model, fit_polynomial(model, z, y, **options)


def images(model, states):
    with torch.no_grad():
        return model(torch.from_numpy(states[:, None]))[:, 0].numpy()


def error(model, before, after):
    return np.sqrt(((images(model, before) - after) ** 2).mean())


def fits_of(data, kind):
    fits = []
    fits.extend(kind.train(trial, data, Budget()) for trial in kind.models(data, fits, Budget()))
    return fits


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def states():
    return np.random.default_rng(0).uniform(-1, 1, size=(80, 2))


def test_a_polynomial_map_is_recovered_to_rounding(states):
    model, fit = fitted(states, henon(states), 2)
    other = np.random.default_rng(1).uniform(-1, 1, size=(50, 2))
    assert error(model, other, henon(other)) < 1e-14
    assert fit.error < 1e-13
    assert (fit.coefficients, fit.pairs) == (12, 80)


def test_noise_is_averaged_as_least_squares_do(states):
    """Ridge regression errs no more than least squares in the true terms, and a twentieth."""
    noise = np.random.default_rng(2).normal(size=states.shape)
    after = henon(states) + 1e-3 * noise
    model, fit = fitted(states, after, 5)
    A = chebvander2d(*states.T, [5, 5])[:, [i * 6 + j for i in range(6) for j in range(6 - i)]]
    theirs = A @ np.linalg.lstsq(A, after)[0]
    exact = np.sqrt(((theirs - henon(states)) ** 2).mean())
    assert error(model, states, henon(states)) < 1.05 * exact
    expected = np.sqrt(np.mean((1e-3 / after.std(0)) ** 2))
    assert 0.9 * expected < fit.error < 1.5 * expected


def test_errors_of_pairs_left_out_are_those_of_fits_without_them(states):
    """The leverage gives what a second fit to all other pairs gives."""
    after = np.sin(2 * states) + 1e-4 * np.random.default_rng(3).normal(size=states.shape)
    model, fit = fitted(states, after, 4, searched=0)
    layer = model.core
    z, y = (model.coordinates(torch.from_numpy(each)) for each in (states, after))
    weights = 8.0 ** layer.orders.sum(1).numpy()
    A = layer.values(z).numpy() / weights
    change, damped = (y - z).numpy(), np.sqrt(fit.penalty * len(A)) * np.eye(A.shape[1])
    squares = []
    for n in range(len(A)):
        rows = np.vstack([np.delete(A, n, 0), damped])
        right = np.vstack([np.delete(change, n, 0), np.zeros((A.shape[1], 2))])
        squares.append((change[n] - A[n] @ np.linalg.lstsq(rows, right)[0]) / y.std(0).numpy())
    assert fit.error == pytest.approx(np.sqrt(np.mean(np.square(squares))), rel=1e-6)
    assert fit.penalty in PENALTIES


def test_a_component_without_influence_is_followed_far_away():
    """Pairs whose second component drifts on: the field depends on the first alone."""
    n = np.arange(120)
    before = np.stack([np.sin(0.7 * n), 0.1 * n], 1)
    after = np.stack([before[:, 0] + 0.1 * np.cos(before[:, 0]), before[:, 1] + 0.1], 1)
    folds = np.where(n < 60, -1, 0)[:75]
    model, _ = fitted(before[:75], after[:75], 6, folds=folds)
    assert error(model, before[75:], after[75:]) < 1e-7
    assert model.core.decays[1] > 100 * model.core.decays[0]


def test_rates_are_found_one_by_one():
    target = np.array([2.0, 300.0])

    def distance(rates):
        return float(np.abs(np.log(rates / target)).sum())

    assert np.abs(np.log2(descend(distance, np.full(2, 8.0)) / target)).max() < 0.5


def test_angles_have_harmonics(states):
    model = vp.models.PolynomialMap(dim=2, degree=3, periodic={0: 2 * np.pi})
    z = torch.from_numpy(3 * states)
    y = torch.stack([z[:, 0] + 0.1 * z[:, 1], 0.9 * z[:, 1] - 0.1 * z[:, 0].sin()], 1)
    model.set_normalisation(z.mean(0), z.std(0))
    model.adapt(z)
    fit_polynomial(model, z, y)
    turned = z + torch.tensor([2 * np.pi, 0.0])
    expected = y + torch.tensor([2 * np.pi, 0.0])
    assert torch.allclose(model(turned[:, None])[:, 0], expected, atol=1e-12)


def test_friction_is_a_reason_for_polynomials():
    """A flow that changes volumes: the exact flow of a damped oscillator is a linear map."""

    def oscillator(t, y):
        x, v = y
        return [v, -x - v / 5]

    system = vp.System.from_function(oscillator, dim=2)
    data = TrainingData.of(vp.generate(system, "damped.h5", count=20, steps=10, step=0.3))
    kind = PolynomialRegression()
    assert kind.admits(data) is None
    assert kind.is_needed(data, [])
    fits = fits_of(data, kind)
    assert min(fit.error for fit in fits) < 1e-12
    assert {fit.judged_by for fit in fits} == {"held out"}
    assert not fits[0].structured
    assert not fits[0].model.structure.keeps_volume


def test_degrees_end_where_the_error_no_longer_falls(states):
    after = henon(states) + 1e-3 * np.random.default_rng(2).normal(size=states.shape)
    data = TrainingData.of(vp.import_pairs(states, after, "noisy.h5"))
    fits = fits_of(data, PolynomialRegression())
    assert [fit.size.partition(",")[0] for fit in fits] == [f"degree {d}" for d in range(1, 6)]
    assert fits[1].error < 1.2 * min(fit.error for fit in fits)
    given = fits_of(data, PolynomialRegression({"degree": 3}))
    assert [fit.size for fit in given] == ["degree 3, 20 coefficients"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"window": 2}, "a polynomial reads one state, no window"),
        ({"dtype": "float32"}, "the linear solve needs double precision"),
    ],
)
def test_reasons_without_polynomials_are_sentences(states, options, reason):
    data = TrainingData.of(vp.import_pairs(states, henon(states), "pairs.h5"))
    assert PolynomialRegression(options).admits(data) == reason


def test_states_that_are_not_finite_are_refused(states):
    with pytest.raises(InputError, match="two or more pairs of finite states"):
        fitted(states, states * np.nan, 2)


def test_the_command_trains_a_polynomial(states):
    dataset = vp.import_pairs(states, henon(states), "henon.h5")
    model = vp.models.build(dataset.system, "polynomial", {"degree": 3})
    history = vp.train(model, dataset)
    assert history.stopped_by == "solved"
    assert history.test_error < 1e-13
