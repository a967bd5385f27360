"""Linear maps and polynomials by least squares, against NumPy and fits to other pairs."""

import numpy as np
import pytest
import torch
from scipy.linalg import expm

import vpintegrator as vp
from tests.training.conftest import fits_of, images
from vpintegrator.errors import InputError
from vpintegrator.training import KINDS, LinearMaps, PolynomialRegression, search
from vpintegrator.training.regression import PENALTIES, fit_linear_map, fit_polynomial
from vpintegrator.training.training_data import TrainingData


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def oscillators(count=10, step=0.3):
    springs = 2 * np.eye(count) - np.eye(count, k=1) - np.eye(count, k=-1)
    zero = np.zeros((count, count))
    return expm(step * np.block([[zero, np.eye(count)], [-springs, zero]]))


@pytest.mark.parametrize("kinds", [KINDS, [search("linear")]])
def test_a_chain_of_oscillators_is_symplectic_to_rounding(kinds):
    before = np.random.default_rng(0).normal(size=(60, 20))
    A = oscillators()
    data = vp.import_dataset((before, before @ A.T), "a.h5", pairs=True, structure="symplectic")
    model = vp.fit(data, kinds, progress=False).model
    assert model.name == "linear"
    unseen = np.random.default_rng(1).normal(size=(50, 20))
    assert error(model, unseen, unseen @ A.T) < 1e-12 * (unseen @ A.T).std()
    with torch.no_grad():
        matrix = model(torch.eye(20).double()[:, None])[:, 0] - model(torch.zeros(1, 1, 20))[:, 0]
    J = vp.nn.canonical_form(20)
    assert float((matrix @ J @ matrix.mT - J).abs().max()) < 1e-12


def test_an_exact_linear_map_ends_the_search_where_it_keeps_the_form():
    """Nothing is claimed: the matrix shows whether it keeps the volume."""
    before = np.random.default_rng(0).normal(size=(60, 20))
    A = oscillators()
    fit = vp.fit((before, before @ A.T), progress=False)
    assert [each.kind for each in fit.tried] == ["linear maps"]
    assert fit.structured
    assert fit.error < 1e-14
    contracted = vp.fit((before, 0.9 * before @ A.T), [LinearMaps()], progress=False)
    assert not contracted.structured
    assert contracted.error < 1e-14


def test_left_out_pairs_are_predicted_by_the_others():
    """The closed form is the error of fits that leave a pair out, one by one."""
    z, y = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 14, 6)))
    squares = []
    for k in range(len(z)):
        others = torch.arange(len(z)) != k
        model = vp.models.LinearMap(dim=6)
        fit_linear_map(model, z[others], y[others])
        with torch.no_grad():
            squares.append((((model(z[k][None, None]) - y[k]) / y.std(0)) ** 2).mean())
    error = fit_linear_map(vp.models.LinearMap(dim=6), z, y).error
    assert np.isclose(error, np.sqrt(np.mean(squares)), rtol=1e-6)


def test_the_last_fifth_of_an_orbit_judges_its_linear_map():
    """States beside the ones that are left out would tell them."""
    q, p = [0.8], [0.0]
    for _ in range(200):  # of a pendulum
        p.append(p[-1] - 0.1 * np.sin(q[-1]))
        q.append(q[-1] + 0.1 * p[-1])
    data = vp.import_dataset(np.stack([q, p], 1)[None], "a.h5", step=0.1)
    fit = vp.fit(data, [LinearMaps()])
    before, after, _, folds = TrainingData(data).known_pairs
    last = fit_linear_map(vp.models.LinearMap(dim=2), before, after, folds).error
    rows, early = np.column_stack([before, np.ones(len(before))]), folds < 0
    matrix = np.linalg.lstsq(rows[early], after.numpy()[early], rcond=None)[0]
    wrong = (rows @ matrix - after.numpy())[~early] / after.numpy().std(0)
    assert 4 * (~early).sum() == pytest.approx(early.sum(), abs=4)
    assert last == pytest.approx(np.sqrt((wrong**2).mean()), rel=0.01)
    assert fit.judged_by == "blocks" and last < fit.error < 1.1 * last


def henon(z):
    return np.stack([1 - 1.4 * z[:, 0] ** 2 + z[:, 1], 0.3 * z[:, 0]], 1)


def fitted(before, after, degree, periodic=None, **options):
    model = vp.models.PolynomialMap(dim=2, degree=degree, periodic=periodic or {})
    z, y = torch.from_numpy(before), torch.from_numpy(after)
    model.set_normalisation(z.mean(0), z.std(0))
    model.adapt(z)
    return model, fit_polynomial(model, z, y, **options)


def error(model, before, after):
    return np.sqrt(((images(model, before) - after) ** 2).mean())


@pytest.fixture
def states():
    return np.random.default_rng(0).uniform(-1, 1, size=(80, 2))


def test_a_polynomial_map_is_recovered_to_rounding(states):
    model, fit = fitted(states, henon(states), 2)
    other = np.random.default_rng(1).uniform(-1, 1, size=(50, 2))
    assert error(model, other, henon(other)) < 1e-14
    assert fit.error < 1e-13
    assert (fit.coefficients, fit.pairs) == (12, 80)


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


def test_angles_have_harmonics(states):
    """A turn more of an angle is a turn more of its image."""
    z, turn = 3 * states, np.array([2 * np.pi, 0.0])
    y = np.stack([z[:, 0] + 0.1 * z[:, 1], 0.9 * z[:, 1] - 0.1 * np.sin(z[:, 0])], 1)
    model, _ = fitted(z, y, 3, periodic={0: 2 * np.pi})
    np.testing.assert_allclose(images(model, z + turn), y + turn, atol=1e-12)


def test_degrees_end_where_the_error_no_longer_falls(states):
    after = henon(states) + 1e-3 * np.random.default_rng(2).normal(size=states.shape)
    data = TrainingData.of(vp.import_dataset((states, after), "noisy.h5", pairs=True))
    fits = fits_of(PolynomialRegression(), data)
    assert [fit.size.partition(",")[0] for fit in fits] == [f"degree {d}" for d in range(1, 6)]
    assert fits[1].error < 1.2 * min(fit.error for fit in fits)
    given = fits_of(PolynomialRegression({"degree": 3}), data)
    assert [fit.size for fit in given] == ["degree 3, 20 coefficients"]


def test_states_that_are_not_finite_are_refused(states):
    with pytest.raises(InputError, match="two or more pairs of finite states"):
        fitted(states, states * np.nan, 2)
