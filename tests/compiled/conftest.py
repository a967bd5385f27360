"""Models of every kind, small enough to be compiled in a test."""

import numpy as np
import torch

from tests.rollout.systems import system
from vpintegrator import models
from vpintegrator.nn.composition import Composition
from vpintegrator.nn.feed_forward import ResidualLayer
from vpintegrator.nn.layer import ACTIVATIONS

BODY = system("rigid-body").reversing_symmetries


class Activations(models.Model):
    """A residual layer with each activation."""

    def __init__(self, dtype):
        layers = [ResidualLayer(2, 5, activation=name).to(dtype) for name in ACTIVATIONS]
        core = Composition(torch.nn.Flatten(-2), *layers, torch.nn.Unflatten(-1, (1, 2)))
        super().__init__(core, 2, dtype=dtype)


MODELS = {
    "vpff": lambda **o: models.VolumePreservingFeedForward(
        dim=3, width=4, depth=2, reversing_symmetries=BODY, **o
    ),
    "angles": lambda **o: models.VolumePreservingFeedForward(
        dim=3, functions="polynomial", degree=3, depth=1, periodic={0: 2.5}, **o
    ),
    "polynomials": lambda **o: models.VolumePreservingFeedForward(
        dim=3, depth=1, functions="polynomial", degree=5, reversing_symmetries=BODY, **o
    ),
    "formulas": lambda **o: models.VolumePreservingFeedForward(
        dim=3,
        functions="polynomial",
        degree=2,
        depth=1,
        expressions=["exp(-z[0]**2)", "(1 + z[2]**2)**(-1.5)", "sigmoid(z[1])"],
        **o,
    ),
    "triangular": lambda **o: models.VolumePreservingFeedForward(
        dim=4, feed_forward="triangular", **o
    ),
    "vpt": lambda **o: models.VolumePreservingTransformer(
        dim=3, window=3, depth=1, width=3, reversing_symmetries=BODY, **o
    ),
    "skew": lambda **o: models.VolumePreservingTransformer(dim=3, window=6, depth=1, width=3, **o),
    "shorter prediction": lambda **o: models.VolumePreservingTransformer(
        dim=2, window=5, prediction_window=2, width=3, **o
    ),
    "published": lambda **o: models.VolumePreservingTransformer(
        dim=3, window=3, depth=3, feed_forward="triangular", weighting="arbitrary", **o
    ),
    "arbitrary, long": lambda **o: models.VolumePreservingTransformer(
        dim=4, window=5, depth=1, width=3, weighting="arbitrary", **o
    ),
    "vpmt": lambda **o: models.VolumePreservingMultiheadTransformer(
        dim=2, window=3, depth=1, width=3, attention_width=4, **o
    ),
    "transformer": lambda **o: models.StandardTransformer(dim=2, window=3, **o),
    "resnet": lambda **o: models.ResidualNetwork(dim=2, width=8, **o),
    "activations": lambda **o: Activations(**o),
}


def build(name, dtype=torch.float64):
    torch.manual_seed(0)
    return ready(MODELS[name](dtype=dtype))


def ready(model):
    """A model at other weights, with a normalisation."""
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
    model.set_normalisation(0.1, 1.3)
    return model.eval()


def windows(model, count):
    generator = np.random.default_rng(1)
    return torch.from_numpy(generator.normal(size=(count, model.window, model.dim))).to(model.scale)


def eager(model, first, calls):
    """All states that a model predicts in PyTorch, and the last windows."""
    states = first
    with torch.no_grad():
        for _ in range(calls):
            states = torch.cat([states, model.predict(states[:, -model.window :])], dim=1)
    return states[:, model.window :].numpy(), states[:, -model.window :].numpy()


def assert_same_map(machine, model, first, calls=1, rounding=1e-12):
    """Compiled states and windows are those of PyTorch, relative to the size of states."""
    for found, expected in zip(
        machine.predict(first.numpy(), calls), eager(model, first, calls), strict=True
    ):
        assert found.dtype == expected.dtype
        size = np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=rounding, atol=rounding * size)
