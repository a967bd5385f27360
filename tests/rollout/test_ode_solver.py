"""A trained model as a method of solve_ivp."""

import warnings

import numpy as np
import pytest
import torch
from scipy.integrate import OdeSolver, solve_ivp

from tests.rollout.diagnostics.linear_models import linear_model, rotation
from tests.rollout.systems import initial, system
from vpintegrator.dynamics import solve
from vpintegrator.errors import InputError
from vpintegrator.models import (
    StandardTransformer,
    VolumePreservingFeedForward,
    VolumePreservingTransformer,
)
from vpintegrator.rollout import rollout
from vpintegrator.rollout.ode_solver import as_ode_solver

H = 0.2


def field(t, z):
    return system("rigid-body").vector_field(z)


def oscillator(t, z):
    return system("harmonic-oscillator").vector_field(z)


def feed_forward():
    torch.manual_seed(0)
    model = VolumePreservingFeedForward(dim=3, initial_scale=0.2)
    model.metadata["step"] = str(H)
    return model


def exact_model(window, new=None):
    """The flow of the oscillator, each state predicted from the newest but one window."""
    new = new or window
    size = 2 * window
    matrix = np.zeros((size, size))
    # a shift by `new` that is invertible: each state from that with the same place in the window
    for k in range(window):
        place = slice(2 * k, 2 * k + 2)
        matrix[place, place] = rotation(new * H)
    return linear_model(matrix, 2, H, new)


def exact(t, z):
    return np.array([rotation(s) @ z for s in np.atleast_1d(t)]).T


def test_one_step_model_is_its_rollout():
    model, z = feed_forward(), initial("rigid-body", 1)[0]
    method = as_ode_solver(model)
    assert issubclass(method, OdeSolver)
    solution = solve_ivp(field, (3.0, 3.0 + 50 * H), z, method=method)
    assert solution.success
    assert np.allclose(solution.t, 3.0 + H * np.arange(51), rtol=1e-14)
    assert np.array_equal(solution.y.T, rollout(model, z[None], 50)[0])
    assert solution.nfev == 0


@pytest.mark.parametrize("new", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_model_of_windows_is_its_rollout(new, dtype):
    torch.manual_seed(0)
    model = VolumePreservingTransformer(dim=3, window=3, prediction_window=new, dtype=dtype)
    z = initial("rigid-body", 1)
    window = solve(system("rigid-body"), z, H * np.arange(3), rtol=1e-13, atol=1e-13)
    solution = solve_ivp(field, (0, 20 * H), z[0], method=as_ode_solver(model, H))
    states = rollout(model, window, 20)[0]
    assert np.allclose(solution.y.T[:3], window[0], rtol=0, atol=1e-12)
    tolerance = 1e-11 if dtype == torch.float64 else 1e-5
    assert np.allclose(solution.y.T, states, rtol=0, atol=tolerance)
    assert solution.t[-1] == 20 * H


@pytest.mark.parametrize("window", [1, 2, 3])
@pytest.mark.parametrize("end", [0.5, 1.0, 3.9, 4.0])
@pytest.mark.parametrize("direction", [1, -1])
def test_between_the_steps(window, end, direction):
    z = np.array([0.3, -0.9])
    span = (1.0, 1.0 + direction * end * 2)
    times = np.linspace(*span, 41)
    method = as_ode_solver(exact_model(window))
    solution = solve_ivp(oscillator, span, z, method=method, t_eval=times)
    assert solution.success
    assert np.array_equal(solution.t, times)
    # half way in the first step, where the four states lie to one side: 5e-10, else 5e-11
    assert np.abs(solution.y - exact(times - 1, z)).max() < 1e-9
    late = np.abs(times - 1) > 2 * H
    assert np.abs(solution.y - exact(times - 1, z))[:, late].max() < 5e-11
    dense = solve_ivp(oscillator, span, z, method=method, dense_output=True)
    assert np.allclose(dense.sol(times), solution.y, rtol=0, atol=1e-13)
    assert dense.t[-1] == span[1]
    assert np.allclose(dense.y[:, -1], exact(span[1] - 1, z)[:, 0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("direction", [1, -1])
def test_events(direction):
    def event(t, z):
        return z[0]

    def stop(t, z):
        return z[1] - 0.95

    stop.terminal = True
    span, z = (0, direction * 30), np.array([1.0, 0.0])
    method = as_ode_solver(exact_model(2, 1))
    solution = solve_ivp(oscillator, span, z, method=method, events=event)
    expected = direction * np.pi * (np.arange(len(solution.t_events[0])) + 0.5)
    assert len(expected) == 10
    assert np.allclose(solution.t_events[0], expected, rtol=0, atol=1e-9)
    stopped = solve_ivp(oscillator, span, z, method=method, events=stop)
    # -sin t = 0.95
    first = 2 * np.pi - np.arcsin(0.95) if direction > 0 else -np.arcsin(0.95)
    first = np.pi + np.arcsin(0.95) if direction > 0 else first
    assert stopped.status == 1
    assert stopped.t[-1] == pytest.approx(first, abs=1e-9)


def test_back_in_time_undoes_a_model():
    model, z = feed_forward(), initial("rigid-body", 1)[0]
    method = as_ode_solver(model)
    there = solve_ivp(field, (0, 30 * H), z, method=method)
    back = solve_ivp(field, (30 * H, 0), there.y[:, -1], method=method)
    assert np.allclose(back.y[:, ::-1], there.y, rtol=0, atol=1e-11)
    assert np.allclose(back.t[::-1], there.t, rtol=0, atol=1e-13)


@pytest.mark.parametrize("new", [1, 2])
def test_back_in_time_with_windows(new):
    torch.manual_seed(0)
    model = VolumePreservingTransformer(dim=3, window=3, prediction_window=new)
    z = initial("rigid-body", 1)
    window = solve(system("rigid-body"), z, H * np.arange(3), rtol=1e-13, atol=1e-13)[0]
    solution = solve_ivp(field, (0, -7 * H), window[-1], method=as_ode_solver(model, H))
    # the window that ends where it starts, then inverses by hand
    states = [window[0], window[1], window[2]]
    while len(states) < 8:
        with torch.no_grad():
            earlier = model.inverse(torch.from_numpy(np.array(states[:3])))[:new].numpy()
        states = [*earlier, *states]
    expected = np.array(states)[::-1][:8]
    assert np.allclose(solution.y.T, expected, rtol=0, atol=1e-10)


def test_spans_without_a_step():
    method = as_ode_solver(feed_forward())
    z = initial("rigid-body", 1)[0]
    assert np.array_equal(solve_ivp(field, (1.0, 1.0), z, method=method).y[:, -1], z)
    # 0.6000000000000001 / 0.2 is a whole number of steps
    solution = solve_ivp(field, (0.0, 3 * 0.2), z, method=method)
    assert len(solution.t) == 4
    assert np.array_equal(solution.y[:, -1], rollout(feed_forward(), z[None], 3)[0, -1])


def test_divergence_is_a_failure():
    model = linear_model(1e100 * np.eye(2), 2, H)
    solution = solve_ivp(oscillator, (0, 10), [1.0, 1.0], method=as_ode_solver(model))
    assert solution.status == -1
    assert "not finite" in solution.message
    assert np.isfinite(solution.y).all()
    assert len(solution.t) == 4
    # interpolation up to there leaves out what is not finite
    times = np.linspace(0, 3 * H, 7)
    solution = solve_ivp(oscillator, (0, 3 * H), [1.0, 1.0], as_ode_solver(model), t_eval=times)
    assert solution.success
    assert np.isfinite(solution.y).all()


def test_a_field_that_is_not_defined_everywhere():
    # sqrt(z) is NaN beyond the end, where the state ahead lies
    model = linear_model(np.eye(1) * 0.9, 1, H)
    span, times = (0, 2 * H), [0.3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = solve_ivp(
            lambda t, z: -z * np.sqrt(z - 0.75), span, [1.0], as_ode_solver(model), t_eval=times
        )
    assert 0.81 < solution.y[0, 0] < 0.9


def test_mistakes():
    model = feed_forward()
    with pytest.raises(InputError, match=r"trained for the step 0\.2"):
        as_ode_solver(model, 0.1)
    assert as_ode_solver(model, 0.2).h == 0.2
    with pytest.raises(InputError, match="dim = 3"):
        solve_ivp(oscillator, (0, 1), [1.0, 2.0], method=as_ode_solver(model))
    del model.metadata["step"]
    with pytest.raises(InputError, match="for which step"):
        as_ode_solver(model)
    with pytest.raises(InputError, match="positive"):
        as_ode_solver(model, -0.2)
    plain = StandardTransformer(dim=3, window=2)
    with pytest.raises(InputError, match="no explicit inverse"):
        solve_ivp(field, (1, 0), [1.0, 0, 0], method=as_ode_solver(plain, H))
    with pytest.warns(UserWarning, match="rtol, atol: without effect"):
        solve_ivp(field, (0, 1), [1.0, 0, 0], as_ode_solver(model, H), rtol=1e-3, atol=1e-3)
