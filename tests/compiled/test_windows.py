"""Models of windows as loops over time steps and symmetries: equal to PyTorch, with derivatives."""

import functools

import numpy as np
import pytest
import torch

from tests.nn.laws import SIGN_FLIPS
from vpintegrator import compiled, models
from vpintegrator.compiled import bodies
from vpintegrator.compiled.bodies.windows import shears_of_windows
from vpintegrator.models.growth import freeze_attention
from vpintegrator.training import Objective
from vpintegrator.training.residuals import ParameterVector

COUNT = 11  # not a multiple of any number of lanes
MIRROR = [[[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, -1, 0], [0, 0, 0, -1]]]
SMALL = {"depth": 2, "width": 3}
HEADS = {"attention_width": 4, "heads": 2}
CASES = {
    "vpmt": {"dim": 3, "reversing_symmetries": SIGN_FLIPS, **HEADS},
    "vpmt, polynomials": {"dim": 3, "functions": "polynomial", "degree": 2, **HEADS},
    "vpmt, whole windows": {"dim": 2, "prediction_window": 3, "split": "halves", **HEADS},
    "vpmt, stiefel": {"dim": 2, "stiefel": True, **HEADS},
    "vpt": {"dim": 4, "reversing_symmetries": MIRROR, "functions": "polynomial", "degree": 2},
    "vpt, coupled": {"dim": 3, "reversing_symmetries": SIGN_FLIPS, "time_mixing": True},
    "spt": {"dim": 4, "attention": "softmax", "reversing_symmetries": MIRROR},
}


@pytest.fixture(autouse=True)
def loops_for_small_models(monkeypatch):
    monkeypatch.setattr(bodies.source, "_LONG", 0)
    monkeypatch.setattr(bodies.source, "_SHORT", 0)


def build(name):
    torch.manual_seed(0)
    arguments = {"window": 3, **SMALL, **CASES[name]}
    model = models.ARCHITECTURES[name.partition(",")[0]](**arguments)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    model.set_normalisation(0.1, 1.3)
    return model


def windows(model, length):
    generator = np.random.default_rng(1)
    return torch.from_numpy(generator.normal(size=(COUNT, length, model.dim)))


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in CASES if "stiefel" not in name])
def test_derivatives_are_those_of_pytorch(name):
    model = build(name)
    machine = compiled.CompiledResidual(model, np.linspace(0.5, 1.5, model.dim))
    assert isinstance(machine.source, bodies.LoopsSource)
    x, y = windows(model, model.window), windows(model, model.prediction_window)
    parameters = ParameterVector(model)
    objective, vector = Objective(), parameters.read()

    def residual(v):
        difference = objective.difference(model, x, y, parameters.named(v))
        found = (difference * torch.from_numpy(machine.weights)).flatten(1).mT
        return found, found

    slopes, expected = torch.func.jacrev(residual, has_aux=True)(vector)
    slopes, expected = slopes.permute(2, 0, 1).detach().numpy(), expected.detach().numpy()
    arrays = vector.numpy(), x.numpy(), y.numpy()
    transposed, residuals = machine.jacobian(*arrays)
    np.testing.assert_allclose(residuals, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(transposed, slopes, rtol=0, atol=1e-12 * np.abs(slopes).max())
    squares, gradient = machine.gradient(*arrays)
    half = np.tensordot(slopes, expected, 2)
    np.testing.assert_allclose(gradient, half, rtol=0, atol=1e-12 * np.abs(half).max())
    np.testing.assert_allclose(squares[0], np.sum(expected**2), rtol=1e-12)


@pytest.mark.parametrize("trajectories", [1, COUNT])
@pytest.mark.parametrize("name", ["vpmt", "vpmt, whole windows", "vpmt, stiefel", "spt"])
def test_rollouts_are_those_of_pytorch(name, trajectories):
    model = build(name)
    machine = compiled.compile_model(model, trajectories)
    assert isinstance(machine.source, bodies.LoopsSource)
    first = windows(model, model.window)[:trajectories]
    found, last = machine.advance(first.numpy(), 2)
    with torch.no_grad():
        for states in np.split(found, 2, axis=1):
            new = model.predict(first)
            np.testing.assert_allclose(states, new, rtol=1e-12, atol=1e-12)
            first = torch.cat([first, new], 1)[:, -model.window :]
    np.testing.assert_allclose(last, first, rtol=1e-12, atol=1e-12)


@functools.cache
def parts(depth):
    model = models.VolumePreservingMultiheadTransformer(
        dim=3, depth=depth, reversing_symmetries=SIGN_FLIPS
    )
    return bodies.loops_of(model, derivatives=True, windows=True)


@pytest.mark.thorough
def test_units_share_functions():
    count = [parts(depth).units[0].count("struct Kind") for depth in (1, 3)]
    assert count == [3, 3]  # attention, a layer of single states and its inverse


@pytest.mark.parametrize(
    "options",
    [
        {"chart": ["z[0]", "2*z[1]", "z[2]"], "inverse_chart": ["z[0]", "z[1]/2", "z[2]"]},
        {"dtype": "float32"},
        {"window": 1},
    ],
)
def test_other_models_are_followed_as_a_whole(options):
    assert shears_of_windows(models.StandardTransformer(dim=3)) is None
    multihead = models.VolumePreservingMultiheadTransformer
    assert shears_of_windows(multihead(dim=3)) is not None
    assert shears_of_windows(multihead(dim=3, **options)) is None


@pytest.mark.thorough
def test_weights_that_are_not_trained_have_no_derivatives():
    model = build("vpmt")
    freeze_attention(model)
    parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
    machine = compiled.CompiledResidual(model, np.ones(3))  # compared with PyTorch
    x, y = windows(model, 3).numpy(), windows(model, 1).numpy()
    transposed, _ = machine.jacobian(ParameterVector(model).read().numpy(), x, y)
    assert len(transposed) == parameters


@pytest.mark.thorough
def test_small_models_are_straight_code(monkeypatch):
    monkeypatch.undo()
    small = compiled.CompiledResidual(build("vpmt, polynomials"), np.ones(3))
    assert not isinstance(small.source, bodies.LoopsSource)
    large = compiled.CompiledResidual(build("vpmt"), np.ones(3))
    assert isinstance(large.source, bodies.LoopsSource)
