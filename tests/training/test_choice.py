"""What the optimizer "auto" stands for, by the time that an epoch takes."""

from types import SimpleNamespace

import pytest
import torch

from vpintegrator.training import train
from vpintegrator.training.history import Budget
from vpintegrator.training.objective import Objective
from vpintegrator.training.optimizers import choice
from vpintegrator.training.optimizers.choice import by_time
from vpintegrator.training.optimizers.levenberg_marquardt import LevenbergMarquardt

from .conftest import weights


@pytest.fixture
def slow(monkeypatch):
    """Epochs of Levenberg-Marquardt said to take 10 s, of Gauss-Newton 5, of models of any size."""
    monkeypatch.setattr(choice, "_TIMED", 0)
    monkeypatch.setattr(choice, "_seconds_of_an_epoch", lambda *arguments: 10.0)
    monkeypatch.setattr(choice, "_seconds_of_gauss_newton", lambda *arguments: 5.0)
    return monkeypatch


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (Budget(seconds=60.0), "gauss-newton"),
        (Budget(seconds=90.0), "levenberg-marquardt"),
        (Budget(seconds=4.0), "adam"),
        (Budget(epochs=3), "levenberg-marquardt"),
        (Budget(seconds=60.0, epochs=3), "levenberg-marquardt"),
    ],
)
def test_gauss_newton_is_taken_where_the_seconds_are_too_few(
    budget, expected, body, one_step, slow
):
    model = one_step()
    pairs = body.windows(1)
    assert by_time("levenberg-marquardt", model, pairs, Objective(), budget) == expected
    assert by_time("adam", model, pairs, Objective(), budget) == "adam"


def test_dear_epochs_of_gauss_newton_are_no_reason_to_take_it(body, one_step, slow):
    slow.setattr(choice, "_seconds_of_gauss_newton", lambda *arguments: 11.0)
    arguments = "levenberg-marquardt", one_step(), body.windows(1), Objective(), Budget(60.0)
    assert by_time(*arguments) == "levenberg-marquardt"


def test_an_epoch_of_gauss_newton_is_told_from_some_of_its_windows(body, one_step, monkeypatch):
    model = one_step()
    before = weights(model).clone()
    clock = iter([0.0, 0.25])
    monkeypatch.setattr(choice, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    arguments = model, body.windows(1), Objective(), 80  # ten of them are timed
    assert choice._seconds_of_gauss_newton(*arguments) == 0.25 * 60 * 8
    assert torch.equal(weights(model), before)


def test_small_models_are_not_timed(body, one_step, monkeypatch):
    monkeypatch.setattr(choice, "_seconds_of_an_epoch", None)
    arguments = one_step(), body.windows(1), Objective()
    assert by_time("levenberg-marquardt", *arguments, Budget(1e-9)) == "levenberg-marquardt"


def test_an_epoch_takes_as_many_blocks_as_it_has_and_one_solution(body, one_step, monkeypatch):
    model = one_step()
    before = weights(model).clone()
    pairs = body.windows(1)
    clock = iter([0.0, 1.0, 1.5])
    monkeypatch.setattr(choice, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr("vpintegrator.training.optimizers.levenberg_marquardt._JACOBIAN_BYTES", 1)
    blocks = LevenbergMarquardt(model, pairs, generator=torch.Generator()).inputs.shape[0] / 16
    assert choice._seconds_of_an_epoch(model, pairs, Objective(), None) == blocks + 0.5
    assert torch.equal(weights(model), before)


def test_training_goes_on_with_what_was_chosen(tmp_path, body, one_step, slow):
    checkpoint = tmp_path / "checkpoint"

    def stop(history):
        raise KeyboardInterrupt

    options = {"seconds": 30, "compiled": False, "checkpoint": checkpoint, "progress": stop}
    first = train(one_step(), body, **options)
    assert (first.optimizer, first.stopped_by) == ("gauss-newton", "interrupt")
    slow.undo()  # now Levenberg-Marquardt has the time
    more = train(one_step(), body, resume=True, **options)
    assert (more.optimizer, more.epochs) == ("gauss-newton", 2)
