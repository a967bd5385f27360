"""A training that was interrupted goes on bit for bit as if it had not been."""

import os
import signal
from dataclasses import asdict

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.training.conftest import weights
from vpintegrator.errors import InputError
from vpintegrator.training import checkpoint as checkpoints

EPOCHS = 7


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "orbits.h5"
    return vp.generate("rigid-body", path, count=30, steps=10)


@pytest.fixture(autouse=True)
def at_every_epoch(monkeypatch):
    monkeypatch.setattr(checkpoints, "EVERY", 0.0)


def network(optimizer):
    torch.manual_seed(0)
    if optimizer == "stiefel-adam":
        return vp.models.StandardTransformer(dim=3, window=3, width=6)
    return vp.models.ResidualNetwork(dim=3, width=6)


def train(model, data, path=None, progress=False, **options):
    defaults = {"epochs": EPOCHS, "batch": 64, "compiled": False, "noise": 1e-3, "seed": 3}
    return vp.train(model, data, checkpoint=path, progress=progress, **(defaults | options))


def interrupt(history):
    if history.epochs == 3:
        os.kill(os.getpid(), signal.SIGINT)


def curves(history):
    values = asdict(history)
    return {name: value for name, value in values.items() if "seconds" not in name}


@pytest.mark.parametrize("optimizer", ["adam", "momentum", "stiefel-adam"])
def test_an_interrupted_training_ends_as_one_that_was_not(optimizer, data, tmp_path):
    whole = network(optimizer)
    expected = train(whole, data, optimizer=optimizer)
    path = tmp_path / "training.checkpoint"
    first = train(network(optimizer), data, path, interrupt, optimizer=optimizer)
    assert first.stopped_by == "interrupt"
    assert first.epochs < EPOCHS
    model = network(optimizer)
    history = train(model, data, path, optimizer=optimizer)
    assert curves(history) == curves(expected)
    np.testing.assert_array_equal(weights(model), weights(whole))
    assert history.seconds == sorted(history.seconds)


def test_a_finished_training_is_not_done_again(data, tmp_path):
    path = tmp_path / "training.checkpoint"
    model = network("adam")
    expected = train(model, data, path, optimizer="adam")
    again = network("adam")
    seen = []
    history = train(again, data, path, seen.append, optimizer="adam")
    assert not seen
    assert curves(history) == curves(expected)
    np.testing.assert_array_equal(weights(again), weights(model))


@pytest.mark.parametrize(
    "changed", [{"seed": 4}, {"epochs": 8}, {"batch": 32}, {"noise": 0.0}, {"horizon": 2}]
)
def test_the_checkpoint_of_another_training_is_refused(changed, data, tmp_path):
    path = tmp_path / "training.checkpoint"
    train(network("adam"), data, path, optimizer="adam")
    before = path.read_bytes()
    with pytest.raises(InputError, match="another training"):
        train(network("adam"), data, path, optimizer="adam", **changed)
    assert path.read_bytes() == before


def test_other_data_and_other_models_are_other_trainings(data, tmp_path):
    path = tmp_path / "training.checkpoint"
    train(network("adam"), data, path, optimizer="adam")
    other = vp.generate("rigid-body", tmp_path / "other.h5", count=30, steps=10, seed=9)
    with pytest.raises(InputError, match="another training"):
        train(network("adam"), other, path, optimizer="adam")
    wider = vp.models.ResidualNetwork(dim=3, width=7)
    with pytest.raises(InputError, match="another training"):
        train(wider, data, path, optimizer="adam")


def test_optimizers_without_a_state_say_so(data, tmp_path):
    path = tmp_path / "training.checkpoint"
    with pytest.raises(InputError, match="keeps no checkpoint"):
        train(network("adam"), data, path, optimizer="levenberg-marquardt", batch=None)
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"\x10" + bytes(40)])
def test_damaged_files_are_refused_and_kept(content, data, tmp_path):
    path = tmp_path / "training.checkpoint"
    path.write_bytes(content)
    with pytest.raises(InputError, match="remove it"):
        train(network("adam"), data, path, optimizer="adam")
    assert path.read_bytes() == content


def test_models_are_no_checkpoints(data, tmp_path):
    model = network("adam")
    path = tmp_path / "model.safetensors"
    vp.save(model, path)
    with pytest.raises(InputError, match="is a model, not the checkpoint of a training"):
        train(model, data, path, optimizer="adam")
    kept = tmp_path / "training.checkpoint"
    train(model, data, kept, optimizer="adam")
    with pytest.raises(InputError, match="checkpoint of a training, not a model"):
        vp.load(kept)
