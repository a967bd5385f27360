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


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.filterwarnings("ignore:.* is not to be relied on")  # after so few epochs
def test_loss_curve(body, name, compiled):
    torch.manual_seed(0)
    model = getattr(vp.models, name).published(3, dtype="float64")
    weights, states = list(model.core.parameters()), torch.from_numpy(body.states("train"))
    budget = {"epochs": 8, "batch": 256}
    expected = [*published_training.train(NETWORKS[name], weights, states, model.window, **budget)]
    options = {"recipe": "published", "compiled": compiled, "progress": False}
    history = vp.train(model, body, **options, **budget)
    assert history.compiled == compiled
    np.testing.assert_allclose(history.training_error, expected, rtol=0, atol=1e-12)
    assert history.training_error[-1] < 0.9 * history.training_error[0]
    assert (model.scale == 1).all()  # no normalisation


@pytest.mark.filterwarnings("ignore:.* is not to be relied on")
def test_loss_curve_in_single_precision(body):
    torch.manual_seed(0)
    model = vp.models.StandardTransformer.published(3)
    weights, states = list(model.core.parameters()), torch.from_numpy(body.states("train")).float()
    network, budget = published_training.standard_transformer, {"epochs": 8, "batch": 256}
    expected = [*published_training.train(network, weights, states, 3, **budget)]
    history = vp.train(model, body, recipe="published", progress=False, **budget)
    np.testing.assert_allclose(history.training_error, expected, rtol=0, atol=1e-6)


def test_other_optimizers_are_refused(body):
    model = vp.models.VolumePreservingFeedForward.published(3)
    with pytest.raises(InputError, match="must be one of auto, adam, not"):
        vp.train(model, body, recipe="published", optimizer="l-bfgs")
    with pytest.raises(InputError, match="recipe"):
        vp.train(model, body, recipe="publishd")
