"""Determinants and volumes against closed forms, mpmath, and against each other."""

import math

import mpmath
import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.rollout.diagnostics.linear_models import linear_model, rotation
from tests.rollout.systems import BLOW_UP, as_map, initial, system
from vpintegrator.dynamics import load_system
from vpintegrator.rollout.diagnostics import (
    first_window_derivative,
    first_windows,
    log_determinant,
    tangent_propagation,
)
from vpintegrator.rollout.diagnostics.volume import exact_log_determinant

OSCILLATOR = "harmonic-oscillator"


def test_log_determinant_of_linear_maps():
    s, z, h = system(OSCILLATOR), initial(OSCILLATOR, 4), 0.5

    def values(name):
        return log_determinant(as_map(name, s, h), z[:, None])

    assert np.allclose(values("explicit-euler"), math.log1p(h**2), atol=1e-15)
    # det R(hA) with eigenvalues +-ih
    rk4 = abs(sum((1j * h) ** k / math.factorial(k) for k in range(5))) ** 2
    assert np.allclose(values("rk4"), math.log(rk4), atol=1e-15)
    for name in ("implicit-midpoint", "gauss-legendre-6", "stoermer-verlet"):
        assert np.abs(values(name)).max() < 1e-15
    matrix = np.random.default_rng(0).standard_normal((6, 6))
    windows = np.random.default_rng(1).standard_normal((3, 4, 3, 2))
    for new in (1, 2, 3):  # that of the map that is iterated: with fewer new states it shifts
        iterated = matrix.copy()
        iterated[: 6 - 2 * new] = np.eye(6)[2 * new :]
        expected = np.linalg.slogdet(iterated)[1]
        model = linear_model(matrix, 2, h, new)
        assert np.allclose(log_determinant(as_map(model), windows), expected, rtol=1e-12)
        assert log_determinant(model, windows).shape == (3, 4)
        assert np.allclose(log_determinant(model, windows), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["explicit-euler", "rk4", "stoermer-verlet"])
def test_phase_space_of_linear_one_step_maps(name):
    s, z, h, steps = system(OSCILLATOR), initial(OSCILLATOR, 3), 0.5, 2000
    flow = as_map(name, s, h)
    one = log_determinant(flow, z[:1, None])[0]
    history = tangent_propagation(flow, z, steps)
    assert np.array_equal(history.times, h * np.arange(steps + 1))
    assert np.allclose(history.log_determinant, one * np.arange(steps + 1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("new", [1, 2, 3])
def test_phase_space_of_a_linear_model_of_windows(new):
    # of eigenvalues that differ, so that a product of 150 matrices without orthonormalisation has
    # lost the smaller growth long ago; mpmath multiplies them with 300 digits
    random = np.random.default_rng(4)
    matrix, h, steps = 2.0 * random.standard_normal((6, 6)), 0.3, 150
    flow = as_map(linear_model(matrix, 2, h, new), system(OSCILLATOR))
    history = tangent_propagation(flow, initial(OSCILLATOR, 2), steps)
    kept = 2 * (3 - new)
    iterated = matrix.copy()
    iterated[:kept] = np.eye(6)[6 - kept :] if kept else iterated[:0]
    with mpmath.workdps(300):
        angle = mpmath.mpf(h)
        blocks = []
        for k in range(3):
            c, s = mpmath.cos(k * angle), mpmath.sin(k * angle)
            blocks += [[c, s], [-s, c]]
        tangent, map_ = mpmath.matrix(blocks), mpmath.matrix(iterated.tolist())
        expected = [0.0, 0.0, 0.0]
        while len(expected) <= steps:
            tangent = map_ * tangent
            expected += [
                float(mpmath.log(abs(mpmath.det(tangent[2 * k : 2 * k + 2, :]))))
                for k in range(3 - new, 3)
            ]
    assert np.allclose(history.log_determinant, expected[: steps + 1], rtol=1e-11, atol=1e-11)
    assert abs(expected[steps]) > 20


def test_first_windows_and_their_derivatives():
    # pendulum: by central differences of the windows; oscillator: rotations
    flow = as_map(linear_model(np.eye(8), 2, 0.4), system("pendulum"))
    z = initial("pendulum", 40)
    z[3] = np.nan
    found = first_window_derivative(flow, z)
    assert np.isnan(found[3]).all()
    for j in range(2):
        offset = 1e-4 * np.eye(2)[j]
        rows = np.arange(40) != 3
        difference = first_windows(flow, z[rows] + offset) - first_windows(flow, z[rows] - offset)
        assert np.allclose(found[rows][..., j], difference / 2e-4, atol=1e-7)
    determinant = np.linalg.det(found[rows])
    assert np.allclose(determinant, 1, rtol=0, atol=1e-11)
    oscillator = as_map(linear_model(np.eye(8), 2, 0.4), system(OSCILLATOR))
    expected = np.stack([rotation(0.4 * k) for k in range(4)])
    assert np.allclose(first_window_derivative(oscillator, z[:3]), expected, atol=1e-12)


@pytest.mark.parametrize("name", ["rk4", "implicit-midpoint"])
def test_diverged_trajectories(name):
    s = load_system(BLOW_UP)
    flow = as_map(name, s, 0.1)
    z = np.array([[1.0, 1.0], [-1.0, 1.0]])
    history = tangent_propagation(flow, z, 40)
    assert np.isfinite(history.log_determinant[1]).all()
    assert not np.isfinite(history.log_determinant[0, -1])
    # div f = 2x - 1 along x(t) = -1 / (1 + t): log det = -2 log(1 + t) - t
    expected = -2 * np.log1p(history.times) - history.times
    tolerance = 1e-4 if name == "rk4" else 1e-2
    assert np.allclose(history.log_determinant[1], expected, atol=tolerance)


def test_the_volume_of_a_chart():
    s, h = load_system("lotka-volterra-2d"), 0.1
    model = vp.models.build(s, arguments={"functions": "polynomial", "degree": 2})
    model.origin = vp.models.Origin(step=h)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05
    report = vp.compare(model, ["rk4"], system=s, trajectories=3, steps=12, compiled=False)
    for run, summary in zip(report.runs.values(), report.table(), strict=True):
        states = run.states[:, 0]
        # by differences, of the map in the coordinates of the chart
        flow = as_map("rk4" if run.name == "rk4" else model, s, h)
        size = 1e-5
        points = s.chart(states)[:, None, None] + size * np.stack([np.eye(2), -np.eye(2)])
        images = s.chart(flow.map(s.chart.inverse(points).reshape(-1, 1, 2)))
        images = images.reshape(points.shape)
        slopes = (images[:, 0] - images[:, 1]) / (2 * size)
        expected = np.linalg.slogdet(slopes)[1]
        np.testing.assert_allclose(
            run.volume["measure"].log_determinant[:, 0], expected, rtol=0, atol=1e-8
        )
        assert summary["chart volume error"] == run.volume["measure"].largest
        assert summary["chart volume preserved"] == (run.name != "rk4")
        assert summary["map contraction error"] > 1e-9
    tokamak = vp.compare(None, ["rk4"], system="tokamak", step=0.1, steps=4)
    assert "measure" not in tokamak.runs["rk4"].volume


DAMPED = """
state = ["x", "y"]
[vector_field]
x = "y"
y = "-x - 0.2*y"
[defaults]
step = 0.2
"""


def test_of_a_system_that_contracts_the_difference_from_the_exact_contraction_is_measured():
    """In closed form: the determinant of a linear map is that of the method's polynomial."""
    report = vp.compare(
        None,
        ["explicit-euler", "rk4"],
        system=vp.load_system(DAMPED),
        initial=[[1.0, 0.5]],
        steps=9,
    )
    A, h = 0.2 * np.array([[0.0, 1.0], [-1.0, -0.2]]), 0.2
    maps = {"explicit-euler": np.eye(2) + A, "rk4": np.eye(2)}
    for k in (4, 3, 2, 1):
        maps["rk4"] = np.eye(2) + A @ maps["rk4"] / k
    for name, matrix in maps.items():
        error = np.log(np.linalg.det(matrix)) + 0.2 * h
        volume = report.runs[name].volume
        np.testing.assert_allclose(volume["step"].log_determinant, error, rtol=1e-9, atol=1e-14)
        expected = error * np.arange(10)[None]
        got = volume["phase-space"].log_determinant
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-13)
        row = report.table()[list(maps).index(name)]
        assert row["map contraction error"] == volume["step"].largest
        assert row["phase-space contraction error"] == volume["phase-space"].largest
        assert not any("preserved" in title for title in row)


def test_the_exact_contraction_of_a_flow_whose_divergence_varies():
    """By the determinant of the derivative of a fine solution."""
    text = DAMPED.replace("-x - 0.2*y", "-sin(x) - 0.2*y*x**2")
    s, z, h = vp.load_system(text), np.array([[1.0, 0.5]]), 0.2
    fine = log_determinant(vp.classical("dormand-prince-8", s, h / 4), z[..., None, :])
    found = exact_log_determinant(s, z, h / 4, 2)
    assert found[0, 0] == 0
    np.testing.assert_allclose(found[0, 1], fine[0], rtol=1e-9)
    henon = vp.load_system("henon-map")
    image = exact_log_determinant(henon, np.array([[0.1, 0.1]]), 1.0, 3)[0]
    one = np.log(abs(np.linalg.det(henon.map_jacobian(np.array([0.1, 0.1])))))
    np.testing.assert_allclose(image, one * np.arange(4), atol=1e-12)
