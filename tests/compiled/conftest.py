"""Models of every kind, small enough to be compiled in a test."""

import numpy as np
import pytest
import torch

from tests.rollout.systems import system
from vpintegrator import models

BODY = system("rigid-body").reversing_symmetries

MODELS = {
    "vpff": lambda **o: models.VolumePreservingFeedForward(
        dim=3, width=4, reversing_symmetries=BODY, **o
    ),
    "triangular": lambda **o: models.VolumePreservingFeedForward(
        dim=4, feed_forward="triangular", **o
    ),
    "vpt": lambda **o: models.VolumePreservingTransformer(
        dim=3, window=3, width=3, reversing_symmetries=BODY, **o
    ),
    "skew": lambda **o: models.VolumePreservingTransformer(dim=3, window=6, width=3, **o),
    "shorter prediction": lambda **o: models.VolumePreservingTransformer(
        dim=2, window=5, prediction_window=2, width=3, **o
    ),
    "published": lambda **o: models.VolumePreservingTransformer(
        dim=3, window=3, depth=3, feed_forward="triangular", weighting="arbitrary", **o
    ),
    "arbitrary, long": lambda **o: models.VolumePreservingTransformer(
        dim=4, window=5, width=3, weighting="arbitrary", **o
    ),
    "vpmt": lambda **o: models.VolumePreservingMultiheadTransformer(dim=4, window=3, width=3, **o),
    "transformer": lambda **o: models.StandardTransformer(dim=2, window=3, **o),
    "resnet": lambda **o: models.ResidualNetwork(dim=2, **o),
    "sin": lambda **o: models.ResidualNetwork(dim=2, activation="sin", **o),
    "gelu": lambda **o: models.ResidualNetwork(dim=2, activation="gelu", **o),
    "softplus": lambda **o: models.ResidualNetwork(dim=2, activation="softplus", **o),
    "sigmoid": lambda **o: models.ResidualNetwork(dim=2, activation="sigmoid", **o),
    "relu": lambda **o: models.ResidualNetwork(dim=2, activation="relu", **o),
}


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("VPINTEGRATOR_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


def build(name, dtype=torch.float64):
    torch.manual_seed(0)
    model = MODELS[name](dtype=dtype)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
    model.set_normalisation(0.1, 1.3)
    return model.eval()


def windows(model, count):
    generator = np.random.default_rng(1)
    return torch.from_numpy(generator.normal(size=(count, model.window, model.dim))).to(
        next(model.parameters())
    )
