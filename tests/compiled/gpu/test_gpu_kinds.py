"""Other kinds of models: symplectic ones, charts, families, explicit time."""

import functools

import numpy as np
import pytest
import torch

from tests.models import test_charts, test_conserved, test_explicit_time
from tests.nn.laws import sample
from vpintegrator.compiled import CompiledResidual, compile_model
from vpintegrator.compiled.gpu import GpuModel, GpuResidual
from vpintegrator.models import ARCHITECTURES

from .test_gpu_models import near


def of_architecture(name):
    torch.manual_seed(0)
    small = {"depth": 1, "width": 3, "attention_width": 3}
    small |= {"degree": 3} if ARCHITECTURES[name].linear_in_parameters else {}
    declared = ARCHITECTURES[name].Arguments.declared()
    model = ARCHITECTURES[name](dim=4, **{k: n for k, n in small.items() if k in declared})
    if model.linear_in_parameters:  # small enough that the map exists
        for parameter in model.parameters():
            parameter.data.normal_(std=0.02)
    return model.eval(), sample(70, model.window, 4, scale=0.5)


def in_a_chart():
    _, model, states = test_charts.built("tokamak", depth=1)
    return model.eval(), states


def of_a_family(name):
    model = test_conserved.built(name).eval()
    return model, sample(70, model.window, model.dim, scale=0.5)


def with_explicit_time():
    model = test_explicit_time.built().eval()
    return model, sample(70, model.window, model.dim, scale=0.5)


KINDS = {
    **{name: functools.partial(of_architecture, name) for name in ("spff", "spt", "sgf", "vpgf")},
    "chart": in_a_chart,
    "family": functools.partial(of_a_family, "spff, formulas"),
    "explicit time": with_explicit_time,
}


@pytest.mark.parametrize("name", KINDS)
def test_rollouts_and_derivatives_are_those_of_the_cpu(on_host, name):
    model, first = KINDS[name]()
    expected, _ = compile_model(model).advance(first.numpy(), 2)
    states, _ = GpuModel(model).advance(first, 2)
    near(states, expected, 1e-13)
    targets = first[:, : model.prediction_window] + 0.1
    vector = torch.cat([p.detach().flatten() for p in model.parameters() if p.requires_grad])
    case = vector, first, targets
    weights = np.ones(model.dim)
    slopes, r = CompiledResidual(model, weights).jacobian(*(tensor.numpy() for tensor in case))
    found = GpuResidual(model, weights)
    for a, b in zip(found.jacobian(*case), (slopes, r), strict=True):
        near(a, b, 1e-13)
    size = 1e-13 * np.tensordot(np.abs(slopes), np.abs(r), 2).max()
    half = np.tensordot(slopes, r, 2)
    np.testing.assert_allclose(found.gradient(*case)[1], half, rtol=0, atol=size)


def test_every_architecture_is_tried():
    """Of these, or of those of the other tests."""
    others_alone = {"sgf", "vpgf", "split", "ict"}
    others = {"vpff", "vpt", "vpmt", "transformer", "resnet", "spff", "spt"}
    assert {*ARCHITECTURES} == others | others_alone
