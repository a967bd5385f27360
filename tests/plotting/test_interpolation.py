"""Long steps: the states that a method gives are dots, and the line is the reference's."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from vpintegrator.dynamics import load_system, solve
from vpintegrator.plotting.figures import FIGURES
from vpintegrator.plotting.figures.portraits import CoordinatesFigure
from vpintegrator.plotting.scene import Scene, between
from vpintegrator.rollout import compare


@pytest.fixture(scope="module")
def long_steps():
    """About nine steps a turn."""
    return compare(
        None, ["implicit-midpoint"], system="rigid-body", step=1.0, steps=60, trajectories=2
    )


def test_between_states_lies_the_solution():
    """Against SciPy at the finer times; a straight line would miss by a hundred times as much."""
    system, pieces = load_system("rigid-body"), 8
    initial = np.array([[0.3, 0.8, np.sqrt(1 - 0.73)]])
    fine = solve(system, initial, np.arange(8 * pieces + 1) / pieces)
    curve, solved = between(system, fine[:, ::pieces], 1.0, pieces)
    assert solved
    assert curve.shape == fine.shape
    np.testing.assert_array_equal(curve[:, ::pieces], fine[:, ::pieces])
    chords = np.stack(
        [np.interp(np.arange(65), np.arange(0, 65, 8), fine[0, ::pieces, k]) for k in range(3)], -1
    )
    missed = np.abs(curve - fine).max()
    assert missed < 1e-9
    assert np.abs(chords - fine[0]).max() > 1e6 * missed


def test_states_of_no_solution_are_joined_by_lines(monkeypatch):
    """Also where the solution is too much work; the end of a reference stays where it is."""
    system, initial = load_system("kepler"), np.array([[0.4, 0.0, 0.0, 2.0]])
    orbit = solve(system, initial, 0.5 * np.arange(31))  # eccentricity 0.6
    noisy = orbit + 1e-3 * np.random.default_rng(0).normal(size=orbit.shape)
    curve, solved = between(system, noisy, 0.5, 8)
    assert not solved
    np.testing.assert_allclose(curve[:, 4:-1:8], (noisy[:, 1:] + noisy[:, :-1]) / 2, atol=1e-12)
    curve, _ = between(system, np.where(np.arange(31)[:, None] > 20, np.nan, orbit), 0.5, 8)
    assert np.isfinite(curve[:, : 20 * 8]).all()
    assert np.isnan(curve[:, 20 * 8 + 1 :]).all()
    monkeypatch.setattr("vpintegrator.plotting.scene._WORK", 100)
    assert not between(system, orbit, 0.5, 8)[1]


def test_methods_are_dots_over_the_curve_of_the_reference(long_steps):
    scene = Scene(long_steps)
    assert scene.pieces > 5
    reference, method = FIGURES["phase"](scene).draw().axes
    assert {line.get_marker() for line in reference.lines if len(line.get_xdata()) == 61} == set()
    dots = [line for line in method.lines if line.get_marker() == "o"]
    assert {len(line.get_xdata()) for line in dots} == {61}
    axes = Figure().subplots()
    CoordinatesFigure(scene).panel(axes, 1, slice(10, 21))
    curve, states = axes.lines
    assert curve.get_linestyle() == "-"
    np.testing.assert_array_equal(
        [curve.get_xdata()[:: scene.pieces], curve.get_ydata()[:: scene.pieces]],
        [long_steps.times[10:21], long_steps.reference[0, 10:21, 1]],
    )
    assert states.get_linestyle() == "None"
    np.testing.assert_array_equal(
        states.get_ydata(), long_steps.runs["implicit-midpoint"].states[0, 10:21, 1]
    )
