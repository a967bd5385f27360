"""Training that is interrupted: the best weights so far are kept."""

import math

import pytest
import torch

from tests.training.conftest import ITERATIVE, weights
from vpintegrator import models
from vpintegrator.data import generate
from vpintegrator.training import Objective, relative_error, train
from vpintegrator.training.training_data import TrainingData


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("interrupts") / "small.h5"
    return generate("rigid-body", path, count=40, steps=4)


def error_of(model, data):
    read = TrainingData(data)
    return relative_error(model, *read.held_out(model), scale=read.error_scale)


@pytest.mark.parametrize("name", ITERATIVE)
def test_an_interrupt_within_an_epoch_keeps_the_best(small, one_step, name, tmp_path, monkeypatch):
    options = {"optimizer": name, "epochs": 4, "batch": 40, "noise": 1e-4, "compiled": False}
    calls, original = [], Objective.difference

    def difference(self, *arguments):
        calls.append(0)
        if len(calls) == at:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(Objective, "difference", difference)
    at = 0
    whole = train(one_step(), small, **options)
    count = len(calls)
    for at in (1, count // 2, 2 * count // 3):
        calls.clear()
        model, path = one_step(), tmp_path / f"{at}.safetensors"
        before = weights(model)
        history = train(model, small, **options, output=path)
        assert history.stopped_by == "interrupt"
        if at == 1:
            assert history.epochs == 0 and not path.exists()
            assert torch.equal(weights(model), before)
        else:
            assert history.validation_error == whole.validation_error[: history.epochs]
            assert error_of(model, small) == history.best_validation_error < math.inf
            assert torch.equal(weights(models.load(path)), weights(model))


def test_a_training_goes_on_from_the_best(small, one_step):
    model = one_step()
    first = train(model, small, optimizer="adam", batch=40, epochs=3)
    second = train(model, small, optimizer="adam", batch=40, epochs=2, learning_rate=1e3)
    assert second.best_validation_error == first.best_validation_error
    assert error_of(model, small) == first.best_validation_error


def test_the_share_of_the_budget(small, one_step):
    seen = []
    options = {"optimizer": "adam", "batch": 100, "epochs": 4, "seconds": 1e6}
    train(one_step(), small, **options, progress=lambda history: seen.append(history.share))
    assert seen == [0.25, 0.5, 0.75, 1.0]
