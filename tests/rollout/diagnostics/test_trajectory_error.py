"""Errors of trajectories and when they pass a threshold."""

import math

import numpy as np
import pytest

from vpintegrator.rollout.diagnostics import (
    failure_index,
    root_mean_square_error,
    time_to_failure,
    trajectory_error,
)


def test_errors_of_a_trajectory():
    reference = np.zeros((3, 3, 2))
    states = reference.copy()
    states[0, 1] = [3.0, 4.0]
    states[1, 2] = np.nan
    reference[2, 1:] = np.nan
    error = trajectory_error(states, reference)
    assert np.array_equal(error[0], [0, 5, 0])
    assert np.array_equal(error[1], [0, 0, np.inf])
    assert np.array_equal(error[2], [0, np.nan, np.nan], equal_nan=True)
    error = root_mean_square_error(states, reference)
    assert error[0] == pytest.approx(math.sqrt(25 / 6))
    assert error[1] == math.inf
    assert np.array_equal(failure_index(states), [-1, 2, -1])


def test_time_to_failure():
    times = 0.5 * np.arange(4)
    error = np.array(
        [[0, 0.2, 0.05, 0.3], [0, 0.1, 0.1, 0.1], [0, 0, np.inf, np.inf], [0, np.nan, np.nan, 1]]
    )
    found = time_to_failure(times, error, 0.1)
    assert np.array_equal(found, [0.5, np.nan, 1.0, 1.5], equal_nan=True)
