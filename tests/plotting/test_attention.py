"""The attention of a model: the figure shows the weights that are read off its layers."""

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import vpintegrator as vp
from tests.nn.laws import randomise
from tests.plotting.conftest import untrained
from vpintegrator import models, plotting
from vpintegrator.errors import InputError
from vpintegrator.plotting.figures.models import AttentionFigure, first_window, model_scene


@pytest.fixture
def rotations():
    """Three layers of rotations, of a model that says which system it is of."""
    return randomise(untrained(3, 0.2, vp.load_system("rigid-body").text), 0.5, seed=1)


def test_every_panel_is_the_matrix_of_a_layer(rotations):
    figure = AttentionFigure(model_scene(rotations)).draw()
    panels = [axes for axes in figure.axes if axes.images]
    window = torch.tensor(first_window(rotations))
    weights = vp.nn.attention_weights(rotations, window)
    assert len(panels) == len(weights)
    for axes, matrix in zip(panels, weights.values(), strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), matrix)
        assert axes.images[0].get_clim() == (-1, 1)
        assert len(axes.texts) == matrix.numel()
    report = vp.compare(rotations, ["rk4"], steps=3, trajectories=1, compiled=False)
    np.testing.assert_allclose(report.reference[0, : len(window)], window, atol=1e-10)


def test_heads_of_a_layer_stand_side_by_side():
    model = models.StandardTransformer(dim=4, window=8, depth=2, heads=2)
    model.origin = models.Origin(vp.load_system("coupled-oscillators"), 0.1)
    drawn = AttentionFigure(model_scene(model))
    figure = drawn.draw()
    panels = [axes for axes in figure.axes if axes.images]
    assert [axes.get_title() for axes in panels] == [
        f"layer {layer}, head {head}" for layer in (1, 2) for head in (1, 2)
    ]
    assert all(axes.images[0].get_clim() == (0, 1) for axes in panels)
    assert "each row sums to 1. Layer 1 is core.2 and 2 is core.5." in drawn.caption()


def test_a_layer_is_drawn_into_axes_of_ones_own(rotations):
    window = np.random.default_rng(2).normal(size=(rotations.window, 3))
    weights = vp.nn.attention_weights(rotations, torch.tensor(window))
    axes = Figure().subplots()
    assert plotting.attention(rotations, window, "core.2", ax=axes) is axes
    np.testing.assert_array_equal(axes.images[0].get_array(), weights["core.2"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window": [[0.0, 1.0]]}, r"window has shape \(1, 2\), but .* windows of shape \(3, 3\)"),
        ({"layer": "core.7"}, "one of core.0, .*not 'core.7'"),
        ({"head": 1}, "head must be one of 0, not '1'"),
    ],
)
def test_mistakes(rotations, arguments, message):
    axes = Figure().subplots()
    with pytest.raises(InputError, match=message):
        plotting.attention(rotations, ax=axes, **arguments)
    assert not axes.images
