"""The overview shows a typical orbit and the worst one, and says what became of them."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.plotting.conftest import captions
from vpintegrator.dynamics import load_system
from vpintegrator.errors import InputError
from vpintegrator.plotting.figures import FIGURES
from vpintegrator.plotting.portraits import (
    draw_fate,
    early_and_late,
    last_in_common,
    orbits_shown,
    portrait_kind,
    ranked,
    sphere_of,
)
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.views import pair_of_section, planes_of
from vpintegrator.rollout import compare


def words(axes):
    return " ".join(text.get_text() for text in axes.texts)


@pytest.mark.thorough
def test_the_worst_orbit_is_the_first_to_diverge_or_that_of_the_largest_error(oscillators, body):
    scene = Scene(oscillators)
    failure = oscillators.divergence_time("explicit-euler")
    assert ranked(scene, "explicit-euler")[-1] == np.nanargmin(failure)
    errors = body.runs["rk4"].root_mean_square_error
    np.testing.assert_array_equal(ranked(Scene(body), "rk4"), np.argsort(errors))
    errors = body.runs["net"].root_mean_square_error  # the first, for every column
    assert orbits_shown(Scene(body)) == {np.argsort(errors)[1]: "median", errors.argmax(): "worst"}
    assert orbits_shown(Scene(body, orbits=[3, 1])) == {2: "", 0: ""}
    with pytest.raises(InputError, match="orbits = 4: give up to 4 numbers from 1 to 3"):
        Scene(body, orbits=[4])


def test_panels_show_the_worst_orbit_early_and_late_and_say_what_diverged(oscillators):
    scene = Scene(oscillators)
    figure = FIGURES["overview"].draw(scene)
    name = "explicit-euler"
    place = list(scene.looks).index(name)
    worst = figure.axes[place + len(scene.looks)]
    median, orbit = orbits_shown(scene)
    assert f"median: orbit {median + 1}" in words(figure.axes[0])
    assert f"worst: orbit {orbit + 1}" in words(figure.axes[len(scene.looks)])
    assert f"orbit {orbit + 1}" in words(worst)
    failure = oscillators.divergence_time(name)[orbit]
    assert f"diverged at $t$ = {failure:.4g}" in words(worst)
    calm = scene.looks["rk4"].colour
    place = list(scene.looks).index("rk4")
    late = next(line for line in figure.axes[place].lines if line.get_color() == calm)
    expected = oscillators.runs["rk4"].states[median, -len(late.get_xdata()) :, :2]
    np.testing.assert_array_equal(np.transpose(late.get_data()), expected)


def test_what_left_the_picture_is_told(body):
    run = body.runs["rk4"]
    states = run.states * np.geomspace(1, 1e9, 61)[:, None]
    scene = Scene(replace(body, runs={"rk4": replace(run, states=states)}))
    axes = Figure().subplots()
    draw_fate(axes, scene, "rk4", 0, "worst")
    assert "out of sight from $t$ = " in words(axes)


def test_early_and_late_do_not_meet_and_end_where_the_orbit_diverges(oscillators):
    scene = Scene(oscillators)
    for name in oscillators.runs:
        for orbit, failure in enumerate(oscillators.divergence_time(name)):
            early, late = early_and_late(scene, name, orbit)
            assert early.stop <= late.start + 1
            end = len(oscillators.times) if np.isnan(failure) else failure / oscillators.step
            assert late.stop == round(end)


def test_planes_are_those_of_the_system_file():
    assert planes_of(load_system("kepler"))[0] == (0, 1)
    assert planes_of(load_system("point-vortices")) == [(0, 4)]
    assert planes_of(load_system("tokamak")) == [(3, 2)]  # distance from the axis, and height
    assert planes_of(load_system("pendulum")) == [(0, 1)]
    assert pair_of_section(load_system("tokamak"), "y") == (0, 2)
    assert pair_of_section(load_system("henon-heiles"), "q[0]") == (1, 3)
    assert pair_of_section(load_system("driven-pendulum"), "s") == (0, 1)


def test_a_top_is_drawn_on_its_sphere_and_field_lines_in_a_half_plane():
    top = Scene(compare(None, ["rk4"], system="heavy-top", steps=20, trajectories=2))
    assert portrait_kind(top) == "sphere"
    assert sphere_of(top)[0] == [3, 4, 5]
    lines = Scene(compare(None, ["rk4"], system="tokamak", steps=20, trajectories=2))
    assert portrait_kind(lines) == "plane"
    axes = FIGURES["overview"].draw(lines).axes[0]
    assert axes.get_xlabel() == ""  # the panel below has it
    states = lines.report.runs["rk4"].states[next(iter(orbits_shown(lines)))]
    drawn = np.concatenate([line.get_xdata() for line in axes.lines[-4:-2]])
    radius = np.hypot(states[:, 0], states[:, 1])
    np.testing.assert_allclose(drawn[: len(drawn) // 2], radius[: len(drawn) // 2])


def test_every_column_shows_the_same_orbits_and_where_they_are_at_the_end():
    """The midpoint rule stays on the ellipse of an orbit, and is elsewhere on it."""
    methods = ["implicit-midpoint", "rk4"]
    report = compare(None, methods, system="pendulum", step=0.2, steps=100, trajectories=4)
    scene = Scene(report)
    figure = FIGURES["overview"].draw(scene)
    for row, orbit in enumerate(orbits_shown(scene)):
        for column, name in enumerate(scene.looks):
            axes = figure.axes[row * 2 + column]
            assert f"orbit {orbit + 1}" in words(axes)
            assert last_in_common(scene, name, orbit) == 100
            ring, dot = axes.lines[-2:]
            assert ring.get_markerfacecolor() == "none"
            np.testing.assert_array_equal(np.ravel(ring.get_data()), report.reference[orbit, -1])
            np.testing.assert_array_equal(
                np.ravel(dot.get_data()), report.runs[name].states[orbit, -1]
            )
    text = captions(scene, ["overview"])["overview"]
    assert "of Implicit midpoint and, below, its worst one" in text and "a ring where" in text
    chosen = Scene(report, orbits=[2, 4, 1])
    figure = FIGURES["overview"].draw(chosen)
    assert [words(figure.axes[2 * row]) for row in range(3)] == ["orbit 2", "orbit 4", "orbit 1"]
    assert "the orbits 2, 4 and 1" in captions(chosen, ["overview"])["overview"]


def test_portraits_and_components_are_of_the_orbits_that_are_chosen():
    report = compare(None, "rk4", system="pendulum", step=0.2, steps=20, trajectories=4)
    chosen = Scene(report, orbits=[3, 1])
    (axes,) = FIGURES["phase"].draw(chosen).axes
    drawn = [line.get_xdata() for line in axes.lines[2:]]
    states = report.runs["rk4"].states[[2, 0], :, 0]
    np.testing.assert_array_equal(drawn, states)
    line = FIGURES["coordinates"].draw(chosen).axes[0].lines[1]
    np.testing.assert_array_equal(line.get_ydata(), states[0])
    told = captions(chosen, ["phase", "coordinates"])
    assert "orbits 3 and 1, at all times" in told["phase"]
    assert "Components of orbit 3" in told["coordinates"]


def test_no_position_is_marked_where_the_reference_has_ended(thinned):
    scene = Scene(thinned)
    assert last_in_common(scene, "rk4", 0) is None
    assert "a ring where" not in captions(scene, ["overview"])["overview"]
