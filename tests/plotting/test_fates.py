"""The overview shows a typical orbit and the worst one, and says what became of them."""

from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from vpintegrator.dynamics import load_system
from vpintegrator.plotting.fates import draw_fate, early_and_late, ranked, typical_and_worst
from vpintegrator.plotting.figures import FIGURES
from vpintegrator.plotting.plane import pair_of_section, planes_of
from vpintegrator.plotting.portraits import portrait_kind, sphere_of
from vpintegrator.plotting.scene import Scene
from vpintegrator.rollout import compare


def words(axes):
    return " ".join(text.get_text() for text in axes.texts)


def test_the_worst_orbit_is_the_first_to_diverge_or_that_of_the_largest_error(oscillators, body):
    scene = Scene(oscillators)
    failure = oscillators.divergence_time("explicit-euler")
    assert ranked(scene, "explicit-euler")[-1] == np.nanargmin(failure)
    errors = body.runs["rk4"].root_mean_square_error
    np.testing.assert_array_equal(ranked(Scene(body), "rk4"), np.argsort(errors))
    assert typical_and_worst(Scene(body), "rk4") == [np.argsort(errors)[1], errors.argmax()]


def test_panels_show_the_worst_orbit_early_and_late_and_say_what_diverged(oscillators):
    scene = Scene(oscillators)
    figure = FIGURES["overview"].draw(scene)
    name = "explicit-euler"
    place = list(scene.looks).index(name)
    typical, worst = figure.axes[place], figure.axes[place + len(scene.looks)]
    orbit = typical_and_worst(scene, name)[1]
    assert "typical: orbit" in words(typical)
    assert f"worst: orbit {orbit + 1}" in words(worst)
    failure = oscillators.divergence_time(name)[orbit]
    assert f"diverged at $t$ = {failure:.4g}" in words(worst)
    calm = scene.looks["rk4"].colour
    place = list(scene.looks).index("rk4")
    late = next(line for line in figure.axes[place].lines if line.get_color() == calm)
    orbit = typical_and_worst(scene, "rk4")[0]
    expected = oscillators.runs["rk4"].states[orbit, -len(late.get_xdata()) :, :2]
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
    states = lines.report.runs["rk4"].states[typical_and_worst(lines, "rk4")[0]]
    drawn = np.concatenate([line.get_xdata() for line in axes.lines[-2:]])
    radius = np.hypot(states[:, 0], states[:, 1])
    np.testing.assert_allclose(drawn[: len(drawn) // 2], radius[: len(drawn) // 2])
