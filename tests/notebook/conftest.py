"""One of each, small."""

import pytest
import torch

import vpintegrator as vp


@pytest.fixture(scope="session")
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp("notebook") / "pendulum.h5"
    return vp.generate("pendulum", path, count=10, steps=6)


@pytest.fixture(scope="session")
def trained(dataset):
    """A model and its history."""
    torch.manual_seed(0)
    symmetries = dataset.system.reversing_symmetries
    model = vp.models.SymplecticFeedForward(
        dim=2, width=3, depth=2, reversing_symmetries=symmetries
    )
    history = vp.train(model, dataset, epochs=4, compiled=False, progress=False)
    return model, history


@pytest.fixture(scope="session")
def report(trained):
    against = ["rk4", "explicit-euler"]
    return vp.compare({"net": trained[0]}, against, steps=300, trajectories=3, compiled=False)
