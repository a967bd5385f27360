"""Single panels in Axes of one's own show what the figures show, and follow the Axes' looks."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import vpintegrator as vp
from vpintegrator import plotting
from vpintegrator.errors import InputError
from vpintegrator.plotting.figures.curves import ErrorsFigure, InvariantsFigure, VolumeFigure
from vpintegrator.plotting.figures.sections import PoincareFigure
from vpintegrator.plotting.scene import Scene


def drawn_by(draw, *arguments):
    axes = Figure().subplots()
    draw(axes, *arguments)
    return [np.array(line.get_data(), dtype=float) for line in axes.lines]


def lines_of(axes):
    return [np.array(line.get_data(), dtype=float) for line in axes.lines]


def test_panels_hold_the_curves_of_the_figures(body):
    own, scene = Figure(), Scene(body)
    left, middle, right = own.subplots(1, 3)
    assert plotting.errors(body, ax=left) is left
    assert plotting.invariant(body, "energy", ax=middle) is middle
    assert plotting.volume(body, "phase-space", ax=right) is right
    for axes, expected in (
        (left, drawn_by(ErrorsFigure(scene).panel)),
        (middle, drawn_by(InvariantsFigure(scene).panel, "energy")),
        (right, drawn_by(VolumeFigure(scene).panel, "phase-space")),
    ):
        assert len(axes.lines) == len(expected)
        for line, known in zip(lines_of(axes), expected, strict=True):
            np.testing.assert_array_equal(line, known)
    assert own.axes == [left, middle, right]  # nothing else was added


def test_portraits_are_those_of_the_system_or_of_a_plane(body, oscillators, flow):
    figure = Figure()
    ball, plane, other, solid = (
        figure.add_subplot(1, 4, k + 1, projection="3d" if k == 3 else None) for k in range(4)
    )
    plotting.portrait(body, "rk4", ax=ball)
    assert ball.images, "no sphere"
    plotting.portrait(body, "rk4", plane=("z3", "z1"), ax=plane)
    assert (plane.get_xlabel(), plane.get_ylabel()) == ("$z_{3}$", "$z_{1}$")
    states = body.runs["rk4"].states
    np.testing.assert_array_equal(plane.lines[-1].get_xdata(), states[0, :, 2])
    plotting.portrait(oscillators, ax=other)
    assert other.get_title() == "reference"
    plotting.portrait(flow, "rk4", ax=solid)
    np.testing.assert_array_equal(
        np.array(solid.lines[0].get_data_3d()).T, flow.runs["rk4"].states[0]
    )


def test_sections_hold_every_point_at_one_energy(oscillators):
    for method, section in (
        ("reference", PoincareFigure(Scene(oscillators)).reference_section),
        ("rk4", oscillators.runs["rk4"].section),
    ):
        points = section.points[section.trajectory == 0]  # at the first of four energies
        axes = plotting.section(oscillators, method, ax=Figure().subplots())
        np.testing.assert_array_equal(axes.collections[0].get_offsets(), points[:, [1, 3]])


def test_without_axes_a_figure_is_made_from_a_file(body, tmp_path):
    from matplotlib import pyplot

    body.save(tmp_path / "rollout.h5")
    axes = vp.plotting.errors(tmp_path / "rollout.h5")
    assert axes.figure is pyplot.gcf()
    assert axes.lines
    pyplot.close(axes.figure)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r, ax: plotting.invariant(r, "mass", ax=ax), "one of energy, .*not 'mass'"),
        (
            lambda r, ax: plotting.volume(r, "area", ax=ax),
            "one of step, phase-space, not 'area'",
        ),
        (lambda r, ax: plotting.portrait(r, "euler", ax=ax), "must be one of reference, net"),
        (lambda r, ax: plotting.portrait(r, "rk4", plane=("z1", "y"), ax=ax), "must be one of z1"),
        (lambda r, ax: plotting.portrait(r, "rk4", plane="z1", ax=ax), "is not two names"),
        (lambda r, ax: plotting.section(r, "rk4", ax=ax), "no Poincare section with points"),
        (lambda r, ax: plotting.section(r, "euler", ax=ax), "must be one of reference"),
    ],
)
def test_mistakes_leave_the_axes_as_they_were(call, message, body):
    axes = Figure().subplots()
    with pytest.raises(InputError, match=message):
        call(body, axes)
    assert not axes.lines
