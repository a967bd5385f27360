"""Slopes of series and their standard errors, against SciPy and against series without drift."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter
from scipy.stats import linregress

from vpintegrator.rollout.diagnostics.drift import DriftAccumulator, fit_drift
from vpintegrator.rollout.diagnostics.lyapunov import growth_rates


@given(st.integers(3, 400), st.integers(0, 2**32 - 1), st.lists(st.integers(1, 150), min_size=1))
def test_parts_give_the_regression_of_the_whole(count, seed, parts):
    random = np.random.default_rng(seed)
    times = np.cumsum(random.uniform(0.1, 1.0, count))
    values = random.standard_normal((2, count)).cumsum(axis=1)
    accumulator = DriftAccumulator(2)
    done = 0
    while done < count:
        part = slice(done, done + parts[done % len(parts)])
        accumulator.update(times[part], values[:, part])
        done = part.stop
    fit = accumulator.fit()
    whole = fit_drift(times, values)
    expected = [linregress(times, value).slope for value in values]
    assert np.allclose(fit.slope, expected, rtol=1e-9, atol=1e-11)
    assert np.allclose(fit.standard_error, whole.standard_error, rtol=1e-8, atol=1e-13)


@pytest.mark.parametrize("count", [500, 6400, 10_000])
def test_standard_error_of_oscillations(count):
    random = np.random.default_rng(2)
    # from a tenth of the shortest time on; whole numbers of periods in a batch are the hard case
    angular = np.append(2 * np.pi * random.uniform(10 / count, 0.5, 300), 2 * np.pi * 64 / count)
    phase = random.uniform(0, 2 * np.pi, (len(angular), 1))
    fit = fit_drift(np.arange(count) * 1.0, np.sin(angular[:, None] * np.arange(count) + phase))
    score = np.abs(fit.slope / fit.standard_error)
    assert score.max() < 3.5
    assert np.sqrt(np.mean(score**2)) < 1.0


@pytest.mark.parametrize("memory", [0.002, 0.02, 0.05])  # of the record
def test_errors_are_calibrated_for_noise_with_a_memory(memory):
    """One of three cases lies beyond a standard error, one of twenty beyond two."""
    count, random = 2000, np.random.default_rng(3)
    rho = np.exp(-1 / (memory * count))
    noise = np.sqrt(1 - rho**2) * random.standard_normal((1500, count))
    noise[:, 0] = random.standard_normal(1500)
    values = lfilter([1.0], [1.0, -rho], noise, axis=1)
    fit = fit_drift(np.arange(count), values)
    growth = np.cumsum(values, axis=1)
    found = growth_rates(np.arange(count), growth[:, None])
    statistical = np.sqrt(found.uncertainty[:, 0] ** 2 - 1 / found.time**2)  # but for the transient
    for score in (fit.slope / fit.standard_error, found.exponent[:, 0] / statistical):
        assert 0.64 < (np.abs(score) < 1).mean() < 0.82
        assert 0.92 < (np.abs(score) < 2).mean() < 0.985
