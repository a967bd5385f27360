"""Exact states of one orbit: the same model whatever the door, and small errors on what follows."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import vpintegrator as vp
from tests.training.conftest import fits_of, images
from vpintegrator.training import PolynomialRegression
from vpintegrator.training.training_data import TrainingData

NAMES = ["x", "y", "vx", "vy"]
FIELDS = {
    "quadratic": lambda x, y: 1 + 0.2 * x**2,
    "rational": lambda x, y: 1 / (1 + x**2),
    "round": lambda x, y: 2 - 0.3 * (x**2 + y**2),
}


def orbit(field, seed=0, step=0.2, count=301):
    """Return states of a particle whose velocity a field turns at the rate B(x, y)."""
    first = np.random.default_rng(seed).uniform(-0.8, 0.8, 4)

    def rates(t, z):
        b = FIELDS[field](*z[:2])
        return [z[2], z[3], b * z[3], -b * z[2]]

    times = step * np.arange(count)
    solution = solve_ivp(rates, times[[0, -1]], first, "DOP853", times, rtol=1e-13, atol=1e-14)
    return solution.y.T


def doors(states):
    """Yield one dataset for each way to give the states of an orbit."""
    before, after = states[:-1], states[1:]
    order = np.random.default_rng(1).permutation(len(before))
    arrays = states, np.stack([before, after], 1), (before, after), (before[order], after[order])
    for number, data in enumerate(arrays):
        pairs = True if isinstance(data, tuple) else None
        path = f"{number}.h5"
        yield vp.import_dataset(data, path, step=0.2, components=NAMES, pairs=pairs)


def last(data, degree):
    """Return the model of a degree that follows the one below, and its estimate of the error."""
    return min(fits_of(PolynomialRegression(highest=degree), data), key=lambda fit: fit.error)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_every_door_gives_the_same_groups_and_the_same_model():
    states = orbit("quadratic")[:201]
    models = []
    for dataset in doors(states):
        assert dataset.shapes == {group: (1, n, 4) for group, n in GROUPS.items()}
        models.append(last(TrainingData(dataset), 3).model)
    coefficients = [model.core.coefficients for model in models]
    assert all(torch.equal(each, coefficients[0]) for each in coefficients)


GROUPS = {"train": 141, "validation": 30, "test": 30}


@pytest.mark.parametrize("field", FIELDS)
def test_the_next_states_of_an_orbit_are_predicted(field):
    states = orbit(field)
    data = TrainingData(vp.import_dataset(states[:201], "orbit.h5", step=0.2, components=NAMES))
    fit = last(data, 7)
    assert ((images(fit.model, states[200:300].copy()) - states[201:]) ** 2).mean() < 1e-9
    assert fit.error < 1e-5 and fit.judged_by == "blocks"


def test_an_orbit_with_a_gap_stays_in_the_order_of_time():
    states = orbit("round")[:201]
    kept = np.arange(200) != 77
    pairs = np.stack([states[:-1][kept], states[1:][kept]], 1)
    rows = np.random.default_rng(1).permutation(len(pairs))
    dataset = vp.import_dataset(pairs[rows], "gap.h5", step=0.2)
    test = dataset.states("test")
    assert test.shape == (30, 2, 4)
    parts = [pairs[:77], pairs[77:]]  # whichever piece was met first
    assert any(np.array_equal(test, part[-30:]) for part in parts)
    assert set(TrainingData(dataset).known_pairs.folds) == {-1, 0}
