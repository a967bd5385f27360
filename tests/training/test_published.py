"""The training of arXiv 2312.11166 beside an independent loop in plain PyTorch."""

import copy

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.errors import InputError

NETWORKS = (*("VolumePreservingFeedForward", "VolumePreservingTransformer", "StandardTransformer"),)


def train(network, states, *, epochs, batch):
    """Yield the root mean square distance of the predictions, relative to the states' spread."""
    window = network.window
    windows = states.unfold(1, 2 * window, 1).flatten(0, 1).mT  # (pair, 2 window, dim)
    inputs, targets = windows[:, :window], windows[:, window:]
    spread = states.double().flatten(0, 1).var(0, correction=0).sum().sqrt().item()
    optimizer = torch.optim.Adam(network.parameters(), betas=(0.9, 0.99), eps=1e-8)
    generator = torch.Generator().manual_seed(0)
    for epoch in range(epochs):
        optimizer.param_groups[0]["lr"] = 1e-2 * (1e-6 / 1e-2) ** (epoch / epochs)
        squares = 0.0
        for chosen in torch.randperm(len(inputs), generator=generator).split(batch):
            error = network(inputs[chosen]) - targets[chosen]
            optimizer.zero_grad()
            (error.norm() / targets[chosen].norm()).backward()
            optimizer.step()
            squares += error.square().sum().item()
        yield (squares / targets[..., 0].numel()) ** 0.5 / spread


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    path = tmp_path_factory.mktemp("published") / "body.h5"
    return vp.generate("rigid-body", path, count=60, steps=20, method="implicit-midpoint")


@pytest.mark.parametrize(
    ("name", "dtype", "compiled"),
    [
        *((name, "float64", compiled) for name in NETWORKS for compiled in (False, True)),
        ("StandardTransformer", "float32", False),
    ],
)
@pytest.mark.filterwarnings("ignore:.* is not to be relied on")  # after so few epochs
def test_loss_curve(body, name, dtype, compiled):
    model, budget = getattr(vp.models, name).published(3, dtype=dtype), {"epochs": 8, "batch": 256}
    states = torch.from_numpy(body.states("train")).to(model.scale)
    expected = [*train(copy.deepcopy(model), states, **budget)]
    options = {"recipe": "published", "compiled": compiled, "progress": False}
    history = vp.train(model, body, **options, **budget)
    assert history.compiled == compiled
    atol = 1e-12 if dtype == "float64" else 1e-6
    np.testing.assert_allclose(history.training_error, expected, rtol=0, atol=atol)
    assert history.training_error[-1] < 0.9 * history.training_error[0]
    assert (model.scale == 1).all()  # no normalisation


def test_other_optimizers_are_refused(body):
    model = vp.models.VolumePreservingFeedForward.published(3)
    with pytest.raises(InputError, match="must be one of auto, adam, not"):
        vp.train(model, body, recipe="published", optimizer="l-bfgs")
    with pytest.raises(InputError, match="recipe"):
        vp.train(model, body, recipe="publishd")
