"""Long steps: the states that a method gives are dots, and the line is the reference's."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from vpintegrator.dynamics import load_system, solve
from vpintegrator.plotting.figures import FIGURES
from vpintegrator.plotting.figures.coordinates import draw_component, intervals
from vpintegrator.plotting.figures.volume_errors import draw_volume_error
from vpintegrator.plotting.interpolation import COARSE, between, refinement, turning
from vpintegrator.plotting.portraits import draw_portrait, early_and_late
from vpintegrator.plotting.scene import Scene
from vpintegrator.rollout import compare


@pytest.fixture(scope="module")
def long_steps():
    """About nine steps a turn."""
    return compare(
        None, ["implicit-midpoint"], system="rigid-body", step=1.0, steps=60, trajectories=2
    )


def circle(angle, count=200):
    turn = np.radians(angle) * np.arange(count)
    return np.stack([np.cos(turn), np.sin(turn)], -1)


def test_turning_is_the_angle_from_one_step_to_the_next():
    assert turning(circle(7.0)) == pytest.approx(7.0)
    assert turning(circle(100.0)[None]) == pytest.approx(100.0)
    assert turning(np.zeros((5, 2))) == 0.0
    assert turning(np.zeros((1, 2))) == 0.0
    assert turning(circle(7.0) * 10.0 ** np.linspace(0, 308, 200)[:, None]) < 180  # and no warning


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


def kepler_orbit(step, steps=30):
    system = load_system("kepler")
    initial = np.array([[0.4, 0.0, 0.0, 2.0]])  # eccentricity 0.6, from the pericentre
    return system, solve(system, initial, step * np.arange(steps + 1))


def test_the_energy_is_constant_along_the_curve(monkeypatch):
    system, orbit = kepler_orbit(0.5)
    energy = system.invariants["energy"]

    def change(curve):
        return np.abs(energy(curve) - energy(orbit[0, 0])).max()

    curve, solved = between(system, orbit, 0.5, 24)
    assert solved
    assert change(curve) < 1e-8
    monkeypatch.setattr("vpintegrator.plotting.interpolation._WORK", 100)
    curve, solved = between(system, orbit, 0.5, 24)
    assert not solved
    assert change(curve) > 1e-3


def test_a_close_encounter_is_solved_by_smaller_steps():
    system = load_system("kepler")
    initial = np.array([[0.02, 0.0, 0.0, 9.9]])  # eccentricity 0.96, from the pericentre
    orbit = solve(system, initial, 0.5 * np.arange(31))
    curve, solved = between(system, orbit, 0.5, 24)
    energy = system.invariants["energy"](curve)
    assert solved
    assert np.ptp(energy) < 1e-4 * np.abs(energy).max()


def test_sharp_turns_at_a_pericentre_are_found():
    system, orbit = kepler_orbit(0.1, 126)
    assert turning(orbit) < COARSE
    assert refinement(system, orbit, 0.1) > 5


def test_states_of_no_solution_are_interpolated():
    system, orbit = kepler_orbit(0.5)
    noisy = orbit + 1e-3 * np.random.default_rng(0).normal(size=orbit.shape)
    curve, solved = between(system, noisy, 0.5, 8)
    assert not solved
    np.testing.assert_allclose(curve[:, ::8], noisy, atol=1e-12)
    gone = np.where(np.arange(31)[:, None] > 20, np.nan, orbit)  # a reference that ends early
    curve, _ = between(system, gone, 0.5, 8)
    assert np.isfinite(curve[:, : 20 * 8]).all()
    assert np.isnan(curve[:, 20 * 8 + 1 :]).all()


def test_only_what_is_known_is_drawn_between_long_steps():
    system = load_system("harmonic-oscillator")
    for step, pieces in ((0.1, 1), (1.0, 20), (5.0, 1)):  # smooth, long, longer than a half turn
        states = circle(-np.degrees(step))[None]
        assert refinement(system, states, step) == pieces


def test_methods_are_dots_over_the_curve_of_the_reference(long_steps):
    scene = Scene(long_steps)
    assert scene.pieces > 5
    reference, method = FIGURES["phase"].draw(scene).axes
    assert {line.get_marker() for line in reference.lines if len(line.get_xdata()) == 61} == set()
    dots = [line for line in method.lines if line.get_marker() == "o"]
    assert {len(line.get_xdata()) for line in dots} == {61}
    axes = Figure().subplots()
    draw_component(axes, scene, 1, slice(10, 21))
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
    legend = FIGURES["coordinates"].draw(scene).legends[0]
    lines = dict(
        zip([t.get_text() for t in legend.get_texts()], legend.legend_handles, strict=True)
    )
    assert lines["Implicit midpoint"].get_linestyle() == "None"
    assert lines["reference"].get_linestyle() == "-"


def test_a_plane_has_the_curve_below_the_dots(long_steps):
    axes = Figure().subplots()
    draw_portrait(axes, Scene(long_steps), "implicit-midpoint", (0, 1))
    below, dots = axes.lines
    assert below.get_linestyle() == "-"
    assert len(below.get_xdata()) > 5 * len(dots.get_xdata())
    assert dots.get_linestyle() == "None"


def test_a_method_that_jumps_to_and_fro_is_drawn_as_dots(body):
    run = body.runs["rk4"]
    shaken = run.states + 0.2 * (-1.0) ** np.arange(61)[:, None]
    scene = Scene(body)
    assert scene.pieces == 1
    assert not scene.dotted(run.states[0])
    assert scene.dotted(shaken[0])
    assert turning(shaken) > COARSE


def test_what_is_called_late_is_before_the_divergence(oscillators):
    scene = Scene(oscillators)
    for orbit, time in enumerate(oscillators.divergence_time("explicit-euler")):
        _, late = early_and_late(scene, "explicit-euler", orbit)
        assert oscillators.times[late.stop - 1] < time
        assert late.stop > late.start


def test_long_steps_show_few_turns(long_steps):
    assert intervals(Scene(long_steps)) == [slice(0, 61)]
    turns = compare(
        None, ["rk4"], system="harmonic-oscillator", step=1.5, steps=700, trajectories=1
    )
    first, last = intervals(Scene(turns))
    assert first.stop * 1.5 / (2 * np.pi) < 13
    assert last.stop == 701


def test_curves_of_volumes_start_together_on_a_logarithmic_axis():
    report = compare(None, ["rk4"], system="pendulum", steps=1200, trajectories=1)
    scene = Scene(report)
    assert scene.long
    axes = Figure().subplots()
    draw_volume_error(axes, scene, "step")
    assert axes.lines[0].get_xdata()[0] == report.runs["rk4"].volume["step"].times[1]


def test_orbits_in_space_have_colours_of_their_own(flow):
    axes = Figure().add_subplot(projection="3d")
    draw_portrait(axes, Scene(flow), "rk4")
    assert len({line.get_color() for line in axes.lines}) == 2
