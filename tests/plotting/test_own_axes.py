"""Single panels in Axes of one's own show what the figures show, and follow the Axes' looks."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import vpintegrator as vp
from vpintegrator import plotting
from vpintegrator.errors import InputError
from vpintegrator.plotting.scene import Scene


def test_portraits_are_those_of_the_system_or_of_a_plane(body, oscillators, flow):
    figure = Figure()
    ball, plane, other, solid = (
        figure.add_subplot(1, 4, k + 1, projection="3d" if k == 3 else None) for k in range(4)
    )
    assert [Scene(each).kind for each in (body, oscillators, flow)] == ["sphere", "plane", "space"]
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


def test_without_axes_a_figure_is_made_from_a_file(body, tmp_path):
    from matplotlib import pyplot

    body.save(tmp_path / "rollout.h5")
    axes = vp.plotting.errors(tmp_path / "rollout.h5")
    assert axes.figure is pyplot.gcf()
    assert axes.lines
    pyplot.close(axes.figure)


@pytest.mark.parametrize(
    ("draw", "arguments", "message"),
    [
        ("invariant", ["mass"], "one of energy, .*not 'mass'"),
        ("volume", ["area"], "one of step, phase-space, not 'area'"),
        ("portrait", ["euler"], "must be one of reference, net"),
        ("portrait", ["rk4", ("z1", "y")], "must be one of z1"),
        ("portrait", ["rk4", "z1"], "is not two names"),
        ("section", ["rk4"], "no Poincare section with points"),
        ("section", ["euler"], "must be one of reference"),
    ],
)
def test_mistakes_leave_the_axes_as_they_were(draw, arguments, message, body):
    axes = Figure().subplots()
    with pytest.raises(InputError, match=message):
        getattr(plotting, draw)(body, *arguments, ax=axes)
    assert not axes.lines
