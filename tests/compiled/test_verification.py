"""Libraries that do not do what PyTorch does are refused before they are used."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator import models
from vpintegrator.compiled import (
    CompiledModel,
    CompiledResidual,
    NotCompilable,
    program,
    scalar_graph,
)
from vpintegrator.compiled.verification import verify_model
from vpintegrator.errors import InputError

from .conftest import build, windows

WRONG = "gives other numbers than PyTorch, by .* in "


class Own(models.Model):
    """A weight (2,), and this function of it and windows (1, 2)."""

    def __init__(self, function, dtype=torch.float64):
        super().__init__(torch.nn.Identity(), 2, dtype=dtype)
        self.c = torch.nn.Parameter(torch.tensor([0.3, -0.7], dtype=dtype))
        self.register_buffer("count", torch.zeros(2, dtype=dtype))
        self.function = function

    def forward(self, window):
        return self.function(self, window)


def remembers(model, window):
    model.count += 1
    return window + model.count


def random(model, window):
    return window + torch.rand(2, dtype=window.dtype)


def mean_of_trajectories(model, window):
    return window - window.mean(0, keepdim=True) if window.ndim == 3 else window


def test_wrong_code_is_not_used_in_a_rollout(monkeypatch):
    monkeypatch.setitem(program.BINARY, "add", "-")
    model = build("resnet")
    first = windows(model, 1)
    for count in (1, 3):
        with pytest.raises(NotCompilable, match=WRONG + "component 1 of the states"):
            CompiledModel(model, count)
    with pytest.raises(InputError, match=f"^resnet cannot be compiled: .*{WRONG}"):
        vp.rollout(model, first, 10, compiled=True)
    with pytest.warns(UserWarning, match=f"^resnet runs in PyTorch, not compiled: .*{WRONG}") as w:
        states = vp.rollout(model, first, 5000)
    assert len(w) == 1
    np.testing.assert_array_equal(states, vp.rollout(model, first, 5000, compiled=False))


def test_wrong_derivatives_are_refused(monkeypatch):
    right = scalar_graph.partial_derivatives

    def wrong(graph, n):
        factor = 2.0 if graph.nodes[n][0] == "tanh" else 1.0
        return [(a, graph.mul(graph.constant(factor), b)) for a, b in right(graph, n)]

    monkeypatch.setattr(scalar_graph, "partial_derivatives", wrong)
    model = build("resnet")
    CompiledModel(model)  # which has none
    with pytest.raises(NotCompilable, match=WRONG + "derivatives by .*weight"):
        CompiledResidual(model, np.ones(2))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (remembers, "count changes whenever the model predicts"),
        (random, "gives other states when it is called again"),
        (mean_of_trajectories, WRONG),
    ],
)
def test_what_tracing_does_not_see(function, message):
    model = Own(function)
    with pytest.raises(NotCompilable, match=message):
        CompiledModel(model)
    assert not model.count.any()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda model, z: torch.sin(1e9 * torch.exp(z * model.c)), torch.float64),
        (lambda model, z: torch.sin(1e3 * torch.exp(z * model.c)), torch.float32),
        (lambda model, z: model.c * (torch.exp(800 * z) - torch.exp(-900 * z)), torch.float64),
    ],
)
def test_rounding_that_grows_and_infinities_are_no_difference(function, dtype):
    model = Own(function, dtype)
    CompiledModel(model)
    CompiledResidual(model, np.ones(2))


def test_scales_of_components_are_seen():
    """What is wrong in a small component does not hide behind a large one."""
    model = Own(lambda model, window: window * model.scale)
    model.set_normalisation([0.0, 0.0], [1e6, 1e-6])

    class Wrong:
        def predict(self, first, calls):
            states = first * model.scale.numpy()
            states = np.concatenate([states, states * model.scale.numpy()], 1)
            states[..., 1] *= 1 + 1e-6
            return states, None

    with pytest.raises(NotCompilable, match=WRONG + "component 2"):
        verify_model(Wrong(), model)


@pytest.mark.thorough
def test_what_polynomials_do_far_from_their_data_is_no_difference():
    torch.manual_seed(0)
    model = vp.models.VolumePreservingFeedForward(dim=3, functions="polynomial", degree=16, depth=4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.1 * torch.randn_like(parameter))
    far = model(torch.full((1, 1, 3), 9.0, dtype=torch.float64))
    assert not far.abs().max() < 1e100  # infinite, or nearly so
    CompiledModel(model)
