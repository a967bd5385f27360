"""Budgets: one clock from vp.fit to the optimizer, and what compilation takes of it."""

import math
import time

import numpy as np
import pytest

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.runtime.interrupts import TimeIsUp, check_time
from vpintegrator.training import Budget, Network, TrainingOptions
from vpintegrator.training import train as train_function
from vpintegrator.training.optimizers import Adam
from vpintegrator.training.training_data import TrainingData

LOOP = __import__("sys").modules[train_function.__module__]


@pytest.fixture
def clock(monkeypatch):
    """The seconds of a clock that stands still."""
    seconds = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: seconds[0])
    return seconds


def test_the_clock_and_the_epochs_use_up_a_budget(clock):
    budget = Budget(seconds=20, epochs=10)
    assert (budget.used, budget.left, budget.share()) == (0, 20, 0)
    clock[0] += 5
    assert (budget.used, budget.left, budget.end) == (5, 15, 120)
    assert budget.share(epochs=1) == 0.25 and budget.share(epochs=4) == 0.4
    part = budget.part(1 / 3, epochs=7)
    assert (part.seconds, part.epochs, part.whole) == (5, 7, 20)
    clock[0] += 30
    assert budget.share() == 1 and budget.left == -15 and budget.part().left <= 1e-8
    with pytest.raises(TimeIsUp), budget.hold():
        check_time()
    with budget.hold(beyond=2):
        check_time()


def test_without_limits_a_training_takes_150_seconds():
    assert Budget().seconds == 150
    assert Budget(epochs=3).seconds == Budget(seconds=math.inf).left == math.inf
    assert Budget(epochs=3).target == 0


@pytest.mark.parametrize(
    "limits", [{"seconds": 0}, {"seconds": "1"}, {"epochs": 0}, {"epochs": 1.5}, {"target": -1}]
)
def test_limits_that_are_none(limits):
    with pytest.raises(InputError, match=next(iter(limits))):
        Budget(**limits)


@pytest.mark.parametrize("seconds", [8.0, 400.0])
@pytest.mark.parametrize("door", ["fit", "train"])
@pytest.mark.filterwarnings("ignore:.* is not to be relied on")
def test_rates_decay_over_the_seconds_that_are_given(body, clock, monkeypatch, seconds, door):
    """Also where these are more or fewer than the default ones."""
    rates = []
    epoch = Adam.epoch

    def noted(self, progress):
        rates.append(self.decay(progress))
        clock[0] += seconds / 40
        return epoch(self, progress)

    monkeypatch.setattr(Adam, "epoch", noted)
    if door == "fit":
        options = TrainingOptions(optimizer="adam", batch=1000, compiled=False)
        kind = Network({"width": 4}, architecture="resnet", training=options)
        vp.fit(body, [kind], seconds=seconds, progress=False)
    else:
        model = vp.models.ResidualNetwork(dim=3, width=4)
        options = {"optimizer": "adam", "batch": 1000, "compiled": False}
        vp.train(model, body, seconds=seconds, **options)
    assert len(rates) in (40, 41)
    expected = [1e-3 + 0.999 * (1 + math.cos(math.pi * n / 40)) / 2 for n in range(len(rates))]
    np.testing.assert_allclose(rates, expected, atol=1e-9)
    assert clock[0] <= 100 + 1.1 * seconds


def test_a_slow_compiler_leaves_half_of_the_seconds(body, one_step, clock, monkeypatch):
    """It is ended there, and training goes on in PyTorch."""

    def compiling(*arguments, **options):
        while True:
            clock[0] += 0.5
            check_time()

    monkeypatch.setattr(LOOP, "CompiledResidual", compiling)
    history = vp.train(one_step(), body, seconds=20, target=0.5)
    assert clock[0] - 100 == pytest.approx(10.5)
    assert "more than half" in history.not_compiled and not history.compiled
    assert history.epochs > 0 and history.stopped_by == "target"


def test_the_history_says_the_seconds_of_the_compiler(body, one_step):
    history = vp.train(one_step(), body, epochs=2, compiled=True)
    assert history.compiled and history.compiler_seconds > 0
    assert vp.train(one_step(), body, epochs=2, compiled=False).compiler_seconds == 0


def test_the_test_error_is_that_of_all_windows_outside_of_the_budget(tmp_path, one_step):
    """Also of more windows than there is time for, with a standard error that the errors have."""
    data = TrainingData(vp.generate("rigid-body", tmp_path / "a.h5", count=300, steps=80))
    model = one_step()
    history = vp.train(model, data, seconds=1e-3)
    states = data.dataset.states("test")
    before = states[:, :-1].reshape(-1, 1, 3)
    after = states[:, 1:].reshape(-1, 3)
    squares = ((model.map(before)[:, 0] - after) ** 2).sum(-1)
    whole = math.sqrt(squares.mean()) / data.error_scale.spread
    assert history.test_error == pytest.approx(whole, rel=1e-9)
    expected = squares.std() / math.sqrt(len(squares)) / (2 * squares.mean()) * whole
    assert history.test_deviation == pytest.approx(expected, rel=1e-9)
