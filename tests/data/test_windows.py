"""Windows against an obvious loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vpintegrator.data import windows
from vpintegrator.errors import InputError


@given(st.integers(1, 3), st.integers(1, 4), st.data())
def test_against_a_loop(trajectories, window, data):
    shift = data.draw(st.integers(1, window))
    length = window + shift + data.draw(st.integers(0, 3))
    states = np.random.default_rng(0).normal(size=(trajectories, length, 2))
    inputs, targets = windows(states, window, shift)
    expected = [
        (path[t : t + window], path[t + shift : t + shift + window])
        for path in states
        for t in range(length - window - shift + 1)
    ]
    np.testing.assert_array_equal(inputs, [pair[0] for pair in expected])
    np.testing.assert_array_equal(targets, [pair[1] for pair in expected])


def test_mistakes():
    with pytest.raises(InputError, match="need trajectories of 6 states, but these have 5"):
        windows(np.zeros((1, 5, 2)), 3)
    with pytest.raises(InputError, match="prediction_window = 4 must lie between 1 and window"):
        windows(np.zeros((1, 9, 2)), 3, 4)
