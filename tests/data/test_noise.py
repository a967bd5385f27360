"""The noise of trajectories, estimated from the states alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator.data.noise import _weights, estimate_noise, noise_of_states
from vpintegrator.errors import InputError


@pytest.fixture(scope="module", params=["pendulum", "rigid-body", "lotka-volterra-2d"])
def exact(request, tmp_path_factory):
    dataset = vp.generate(request.param, tmp_path_factory.mktemp("noise") / "a.h5")
    return dataset.states("train"), dataset.times("train")


@pytest.mark.parametrize("level", [1e-4, 1e-3, 1e-2])
def test_it_is_unbiased(exact, level):
    states, times = exact
    noisy = [
        states + level * np.random.default_rng(seed).normal(size=states.shape) for seed in range(4)
    ]
    found = np.mean([noise_of_states(each, times).level for each in noisy], axis=0)
    np.testing.assert_allclose(found, level, rtol=0.05)


def test_its_standard_error_is_that_of_repeated_experiments():
    times = 0.05 * np.arange(400)
    states = np.stack([np.sin(times), np.cos(2 * times)], axis=1)[None]
    found = [
        noise_of_states(states + 0.01 * np.random.default_rng(k).normal(size=states.shape), times)
        for k in range(100)
    ]
    spread = np.std([each.level for each in found], axis=0)
    told = np.mean([each.standard_error for each in found], axis=0)
    np.testing.assert_allclose(told, spread, rtol=0.25)


def test_exact_states_have_none(exact):
    states, times = exact
    found = noise_of_states(states, times)
    assert (found.order == 0).all() and (found.level < 1e-5).all()
    assert all(text.startswith("at most") for text in found.texts())
    resting = noise_of_states(np.ones((3, 20, 2)), np.arange(20.0))
    assert (resting.level < 1e-12).all() and (resting.order == 0).all()


def test_gaps_and_outliers_do_not_change_it():
    times = 0.05 * np.arange(2000)
    rng = np.random.default_rng(0)
    states = np.sin(times)[None, :, None] + 0.01 * rng.normal(size=(1, 2000, 1))
    states[0, rng.choice(2000, 200, replace=False)] = np.nan
    states[0, rng.choice(2000, 10, replace=False)] += 5.0
    assert noise_of_states(states, times).level == pytest.approx(0.01, rel=0.1)


@given(
    st.lists(st.floats(0.1, 10.0), min_size=3, max_size=9), st.integers(0, 2**31), st.integers(1, 5)
)
def test_polynomials_leave_no_difference_at_any_times(steps, seed, order):
    times = np.cumsum(steps)
    order = min(order, len(times) - 1)
    weights = _weights(times, order)
    np.testing.assert_allclose(np.linalg.norm(weights, axis=1), 1.0, rtol=1e-12)
    polynomial = np.polynomial.Polynomial(np.random.default_rng(seed).normal(size=order))
    values = polynomial(times / times[-1])
    windows = np.lib.stride_tricks.sliding_window_view(values, order + 1)
    assert np.abs((weights * windows).sum(axis=1)).max() < 1e-10


@given(st.floats(1e-3, 1e3), st.integers(0, 2**31))
def test_it_has_the_units_of_the_states(unit, seed):
    times = 0.1 * np.arange(60)
    states = np.sin(times)[None, :, None] + 0.01 * np.random.default_rng(seed).normal(
        size=(3, 60, 1)
    )
    found, scaled = noise_of_states(states, times), noise_of_states(unit * states, times)
    np.testing.assert_allclose(scaled.level, unit * found.level, rtol=1e-9)
    np.testing.assert_array_equal(scaled.order, found.order)


def test_datasets_without_trajectories_have_no_estimate(tmp_path):
    before = np.random.default_rng(0).normal(size=(40, 2))
    pairs = vp.import_pairs(before, before, path=tmp_path / "a.h5", step=1.0)
    assert estimate_noise(pairs) is None
    assert estimate_noise(vp.generate("standard-map", tmp_path / "b.h5", count=20)) is None
    with pytest.raises(InputError, match="increase"):
        noise_of_states(np.zeros((1, 3, 1)), np.array([0.0, 1.0, 1.0]))
