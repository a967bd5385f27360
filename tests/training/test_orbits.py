"""Held-out orbits of trained maps."""

import math
import time

import numpy as np
import pytest

import vpintegrator as vp
from tests.training.conftest import fit_with
from vpintegrator.runtime.interrupts import TimeIsUp, until
from vpintegrator.training.orbits import StateRange, follow, iterated, lost_orbits
from vpintegrator.training.results import TOLERANCES
from vpintegrator.training.training_data import TrainingData

TURN = np.array([[0.8, -0.6], [0.6, 0.8]])


class Linear(vp.Map):
    """The map z -> A z."""

    def __init__(self, matrix, window=1):
        self.matrix = np.asarray(matrix)
        self.dim = len(self.matrix)
        self.step = 1.0
        self.window = window
        self.prediction_window = 1
        self.name = "linear"

    def map(self, windows, parameters=None):
        new = windows[:, -1:] @ self.matrix.T
        return np.concatenate([windows[:, 1:], new], 1)


def data_of(matrix, tmp_path, times=8, count=80, structure=None):
    start = np.random.default_rng(0).normal(size=(count, len(matrix)))
    powers = [np.linalg.matrix_power(matrix, n) for n in range(times)]
    states = np.stack([start @ power.T for power in powers], 1)
    path = tmp_path / "orbits.h5"
    return TrainingData(vp.import_dataset(states, path, step=1.0, structure=structure))


def test_the_error_is_that_of_an_independent_loop(tmp_path):
    data = data_of(TURN, tmp_path)
    scaled = Linear(TURN * 1.01)
    result = follow(scaled, data, steps=20)
    held = data.dataset.states("validation")
    errors = []
    for orbit in held:
        z = orbit[0]
        for _ in range(7):
            z = 1.01 * TURN @ z
        errors.append(np.linalg.norm(z - orbit[-1]))
    train = data.dataset.states("train").reshape(-1, 2)
    spread = np.sqrt(train.var(0).sum())
    assert result.horizon == 7 and result.count == len(held)
    assert result.error == pytest.approx(np.median(errors) / spread, rel=1e-12)


@pytest.mark.parametrize("window", [1, 3])
def test_orbits_outside_twice_the_range_are_lost(tmp_path, window):
    data = data_of(TURN, tmp_path)
    assert follow(Linear(TURN, window), data).lost == 0
    assert follow(Linear(0.99 * TURN, window), data).lost == 0
    growing = follow(Linear(1.02 * TURN, window), data)
    assert growing.lost == growing.count  # 1.02^1000 is 4e8
    broken = follow(Linear(math.nan * TURN, window), data, steps=3)
    assert broken.lost == broken.count and broken.error == math.inf


def test_a_range_that_grows_along_the_data_bounds_nothing(tmp_path):
    """Free particles leave any range, and no map that follows them loses one."""
    data = data_of(np.array([[1.0, 1.0], [0.0, 1.0]]), tmp_path)
    assert follow(Linear([[1.0, 1.0], [0.0, 1.0]]), data, steps=100).lost == 0
    assert follow(Linear([[3.0, 0.0], [0.0, 1.0]]), data, steps=100).lost > 0


def test_the_range_is_an_argument(tmp_path):
    data = data_of(TURN, tmp_path)
    wide = StateRange(data.held("train"), room=1e9)
    growing = Linear(1.01 * TURN)
    assert follow(growing, data).lost == follow(growing, data).count  # 1.01^1000 is 2e4
    assert follow(growing, data, bounds=wide).lost == 0


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.2])
@pytest.mark.parametrize("dim", [1, 3])
def test_lost_orbits_are_counted(factor, dim):
    """Orbits that grow by a factor leave the range after a number of steps that is known."""
    size = np.linspace(0.1, 1.0, 10)
    windows = size[:, None, None] * np.ones((10, 1, dim)) * np.tile([1, -1], 5)[:, None, None]
    bounds = StateRange(np.concatenate([windows, -windows]))
    outside = int((size * factor**4 > 2.0).sum())
    chunks = [Linear(c * np.eye(dim)).advance(windows, 4, chunk=3) for c in (factor, math.nan)]
    assert [lost_orbits(each, bounds) for each in chunks] == [outside, 10]
    assert lost_orbits(Linear(9 * np.eye(dim)).advance(windows, 9, chunk=1), bounds, most=1) >= 1


def test_components_without_bounds():
    states = np.array([[[0.0, 1.0], [0.1, -1.0], [0.0, 1.0], [0.1, -1.0]]])
    far = np.array([50.0, 1.5])
    assert not StateRange(states).holds(far)
    assert StateRange(states, free=[0]).holds(far) and not StateRange(states, free=[1]).holds(far)
    grows = StateRange(states * np.array([1.0, 2.0, 3.0, 4.0])[None, :, None])
    assert grows.holds(np.array([0.0, 50.0])) and not grows.holds(np.array([0.0, 500.0]))


def test_pairs_have_no_error_along_orbits(tmp_path):
    before = np.random.default_rng(0).normal(size=(1200, 2))
    pairs = vp.import_dataset((before, before @ TURN.T), tmp_path / "pairs.h5", pairs=True)
    result = follow(Linear(TURN), TrainingData(pairs), steps=10)
    assert math.isnan(result.error) and result.lost == 0
    assert "error" not in result.words


def test_a_better_map_that_loses_orbits_is_set_aside(tmp_path):
    data = data_of(TURN, tmp_path)
    losing = fit_with(1e-8, model=Linear(1.02 * TURN))
    steady = fit_with(1e-7, model=Linear(0.999999 * TURN))
    judged = iterated([losing, steady], data)
    assert judged[0].orbits.lost and not judged[1].orbits.lost
    assert vp.training.best(judged) is judged[1]


def test_a_map_that_was_not_iterated_is_not_taken_for_a_steady_one(tmp_path):
    data = data_of(TURN, tmp_path)
    losing = [fit_with(n * 1e-6, model=Linear(1.02 * TURN)) for n in range(1, 5)]
    judged = iterated([*losing, fit_with(8e-6, model=Linear(1.05 * TURN))], data)
    assert [fit.orbits is None for fit in judged] == [False] * 4 + [True]
    assert vp.training.best(judged) is judged[0]


def test_orbits_speak_for_the_map_of_the_least_error(tmp_path):
    """An explicit map of a little more error is no choice where it is far worse along orbits."""
    data = data_of(TURN, tmp_path, count=200)
    model = Linear((1 + 1e-9) * TURN)
    least = fit_with(1e-6, model=model, explicit=False, structured=True)
    explicit = fit_with(2e-6, model=Linear((1 + 2e-6) * TURN), explicit=True, structured=True)
    judged = iterated([explicit, least], data)
    assert judged[0].orbits is not None and judged[1].orbits is not None
    assert vp.training.best(judged) is judged[1]


class Slow(Linear):
    """The same map, whose call takes some time."""

    def map(self, windows, parameters=None):
        time.sleep(1e-3)
        return super().map(windows, parameters)


def test_orbits_that_the_time_cuts_short_count(tmp_path):
    data = data_of(TURN, tmp_path)
    with until(time.perf_counter() + 0.5):
        cut = follow(Slow(0.9999 * TURN), data, steps=100_000)
    whole = follow(Linear(0.9999 * TURN), data, steps=cut.steps)
    assert 7 <= cut.steps < 100_000 and cut == whole
    with until(0.0), pytest.raises(TimeIsUp):
        follow(Linear(TURN), data, steps=10)


def test_one_map_does_not_take_the_time_of_all(tmp_path, monkeypatch):
    monkeypatch.setattr("vpintegrator.training.orbits.STEPS", 1_000_000)
    data = data_of(TURN, tmp_path)
    slow = [fit_with(n * 1e-6, model=Slow((1 + n * 1e-3) * TURN)) for n in (1, 2)]
    with until(time.perf_counter() + 1.6):
        judged = iterated(slow, data)
    assert all(fit.orbits is not None for fit in judged)


def test_what_cannot_be_doubted_is_not_iterated(tmp_path):
    data = data_of(TURN, tmp_path)
    sure = [fit_with(TOLERANCES.exact / 2, model=Linear(TURN)), fit_with(1e-3, model=Linear(TURN))]
    assert iterated(sure, data) == sure
    single = [fit_with(1e-3, model=Linear(TURN))]
    assert iterated(single, data) == single


def test_a_fit_says_what_became_of_its_orbits():
    rng = np.random.default_rng(0)
    states = [rng.uniform(-1, 1, (60, 2))]
    for _ in range(19):
        q, p = states[-1].T
        p = p - 0.3 * np.sin(2 * q)
        states.append(np.stack([q + 0.3 * p, p], 1))
    kinds = [vp.training.LinearMaps(), vp.training.PolynomialRegression({"degree": 3})]
    result = vp.fit(np.stack(states, 1), kinds, step=0.3)
    assert result.orbits.horizon == 19 and result.orbits.words in str(result)
    assert all(fit.orbits is not None for fit in result.tried if fit.error <= result.error)
