"""A single measured component: the state is incomplete, and windows stand for the rest."""

import matplotlib.figure
import numpy as np
import pytest

import vpintegrator as vp
from vpintegrator.plotting.views import Plane


@pytest.fixture(scope="module")
def angle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("angle")
    data = vp.generate("pendulum", folder / "pendulum.h5", count=20, steps=30)
    states = np.concatenate([data.states(group) for group in data.shapes])[..., :1]
    return vp.import_dataset(states, folder / "angle.h5", step=0.2)


def test_windows_are_the_default(angle):
    model = vp.models.build(angle.system)
    assert (model.window, model.prediction_window) == (2, 1)
    assert any("not the whole state" in choice for choice in model.choices)
    errors = {}
    for window in (1, 2):
        model = vp.models.build(angle.system, arguments={"window": window, "width": 8, "depth": 2})
        errors[window] = vp.train(model, angle, epochs=60).test_error
    assert errors[2] < errors[1] / 20


def test_a_component_is_drawn_over_itself_one_time_later(angle):
    states = np.array([[0.0], [1.0], [3.0]])
    axes = matplotlib.figure.Figure().subplots()
    view = Plane(angle.system, states, (0, 0))
    view.draw(axes, states)
    view.frame(axes)
    (line,) = axes.lines
    np.testing.assert_array_equal(line.get_xydata(), [[0, 1], [1, 3]])
    assert axes.get_ylabel() != axes.get_xlabel()
