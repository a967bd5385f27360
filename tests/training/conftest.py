"""A small dataset and a small model."""

import math
from types import SimpleNamespace

import pytest
import torch

from vpintegrator import models
from vpintegrator.data import generate
from vpintegrator.names import OPTIMIZERS
from vpintegrator.training import Budget, Fit, History, Trainer
from vpintegrator.training.training_data import TrainingData

# linear is for generating functions
ITERATIVE = tuple(name for name in OPTIMIZERS if name not in ("auto", "linear", "stiefel-adam"))


@pytest.fixture(scope="session")
def body(tmp_path_factory):
    path = tmp_path_factory.mktemp("train") / "body.h5"
    return generate("rigid-body", path, count=300, steps=6)


@pytest.fixture
def one_step(body):
    def make(width=4, **options):
        torch.manual_seed(0)
        symmetries = body.system.reversing_symmetries
        return models.VolumePreservingFeedForward(
            dim=3, width=width, depth=2, reversing_symmetries=symmetries, **options
        )

    return make


def weights(model):
    """All parameters in one vector."""
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def fit_with(error, *, parameters=10, deviation=0.0, judged="held out", model=None, **options):
    """The result of a training that ended with an error."""
    options = {"explicit": True, "structured": True} | options
    history = History("linear", 0, parameters)
    model = model or SimpleNamespace(name="model", window=1)
    return Fit(model, "kind", "", error, deviation, judged, 1.0, **options, history=history,
               stopped_by="solved")  # fmt: skip


def fits_of(kind, dataset, *, seed=0, train=Trainer, **budget):
    """All fits of a kind of map in order, with the equations where these are known."""
    data = dataset
    if not isinstance(dataset, TrainingData):
        data = TrainingData(dataset, equations=not dataset.system.is_measured)
    assert kind.admits(data) is None
    trainer = train(kind, data, Budget(**{"seconds": math.inf, **budget}), seed=seed)
    kind.search(data, trainer, trainer.fits)
    return trainer.fits


def images(model, states):
    """States (state, dim) after a call of a map of single states."""
    with torch.no_grad():
        return model(torch.as_tensor(states)[:, None])[:, 0].numpy()
