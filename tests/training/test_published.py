"""The training of arXiv 2312.11166 beside an independent loop from its formulas."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.training import published_training
from vpintegrator.errors import InputError

NETWORKS = {
    "VolumePreservingFeedForward": published_training.feed_forward,
    "VolumePreservingTransformer": published_training.volume_preserving_transformer,
    "StandardTransformer": published_training.standard_transformer,
}


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
    torch.manual_seed(0)
    model = getattr(vp.models, name).published(3, dtype=dtype)
    weights, states = list(model.core.parameters()), torch.from_numpy(body.states("train"))
    states, budget = states.to(model.scale), {"epochs": 8, "batch": 256}
    expected = [*published_training.train(NETWORKS[name], weights, states, model.window, **budget)]
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
