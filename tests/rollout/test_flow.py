"""Cursors and flows: states do not depend on how they are asked for, or on interruptions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import vpintegrator as vp
from tests.rollout.systems import BLOW_UP, initial, system
from vpintegrator.dynamics import load_system
from vpintegrator.models import VolumePreservingFeedForward, VolumePreservingTransformer
from vpintegrator.rollout.flow import as_flow


def model(window, prediction_window=None):
    torch.manual_seed(0)
    if window == 1:
        return VolumePreservingFeedForward(dim=3)
    return VolumePreservingTransformer(
        dim=3, window=window, prediction_window=prediction_window, width=4
    )


METHODS = {
    "rk4": "rk4",
    "implicit-midpoint": "implicit-midpoint",
    "one step": model(1),
    "window": model(3),
    "shorter prediction": model(5, 3),
}


def windows(flow, count=3):
    states = vp.integrate(system("rigid-body"), "rk4", initial("rigid-body", count), 0.2, 8)
    return states[:, : flow.window]


@pytest.mark.parametrize("name", METHODS)
@given(parts=st.lists(st.integers(1, 7), min_size=1, max_size=8))
def test_parts_change_nothing(name, parts):
    flow = as_flow(METHODS[name], system("rigid-body"), 0.2)
    first = windows(flow)
    whole = flow.start(first).advance(sum(parts))
    cursor = flow.start(first)
    states = [cursor.advance(count) for count in parts]
    np.testing.assert_array_equal(np.concatenate(states, axis=1), whole)


@pytest.mark.parametrize("name", METHODS)
def test_map_is_what_the_cursor_does(name):
    flow = as_flow(METHODS[name], system("rigid-body"), 0.2)
    first = windows(flow)
    new = flow.start(first).advance(flow.prediction_window)
    mapped = flow.map(first)
    np.testing.assert_allclose(mapped[:, -flow.prediction_window :], new, atol=1e-15)
    assert mapped.shape == first.shape


@pytest.mark.parametrize("name", METHODS)
def test_derivative_against_differences(name):
    flow = as_flow(METHODS[name], system("rigid-body"), 0.2)
    first, eps = windows(flow), 1e-6
    size = flow.window * flow.dim
    columns = []
    for direction in eps * np.eye(size):
        shift = direction.reshape(flow.window, flow.dim)
        difference = flow.map(first + shift) - flow.map(first - shift)
        columns.append(difference.reshape(len(first), size) / (2 * eps))
    np.testing.assert_allclose(flow.derivative(first), np.stack(columns, axis=-1), atol=1e-8)


def test_a_diverged_trajectory_stays_away():
    s = load_system(BLOW_UP)
    flow = as_flow("explicit-euler", s, 0.5)
    cursor = flow.start(np.array([[[-9.0, 1.0]], [[-1.0, 1.0]]]))
    assert np.isnan(cursor.advance(40)[0, -1]).all()
    later = cursor.advance(3)
    assert np.isnan(later[0]).all()
    assert np.isfinite(later[1]).all()
