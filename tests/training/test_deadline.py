"""Budgets in seconds hold for iterations that take long."""

import time
import warnings

import pytest
import torch

import vpintegrator as vp
from tests.training.conftest import weights
from tests.training.test_search import maker
from vpintegrator.training import Budget, find_functions, levenberg_marquardt, trainer
from vpintegrator.training.deadline import TimeIsUp, check_time, until
from vpintegrator.training.levenberg_marquardt import LevenbergMarquardt
from vpintegrator.training.sizes import count


@pytest.fixture
def clock(monkeypatch):
    """The seconds of a clock, and how many a block of 16 windows takes."""
    seconds = [0.0, 1.0]
    jacobians = LevenbergMarquardt._jacobians

    def slow(self, compiled):
        for block in jacobians(self, compiled):
            seconds[0] += seconds[1]
            yield block

    monkeypatch.setattr(LevenbergMarquardt, "_jacobians", slow)
    monkeypatch.setattr(levenberg_marquardt, "_JACOBIAN_BYTES", 1)
    monkeypatch.setattr(time, "perf_counter", lambda: seconds[0])
    return seconds


def test_a_long_iteration_is_left_and_the_first_one_is_not(body, one_step, clock):
    options = {"optimizer": "levenberg-marquardt", "compiled": False, "progress": False}
    model = one_step()
    history = vp.train(model, body, seconds=5, **options)
    assert (history.epochs, history.stopped_by) == (1, "seconds")  # else there were nothing
    assert clock[0] == 16
    before, begin = weights(model).clone(), clock[0]
    history = vp.train(model, body, seconds=5, **options)
    assert (history.epochs, history.stopped_by) == (0, "seconds")
    assert torch.equal(weights(model), before)
    assert clock[0] - begin <= 1.1 * 5 + 1
    assert history.best_validation_error < 1


def test_a_search_keeps_to_its_budget(body, clock):
    clock[1] = 10.0  # 160 for an iteration
    options = {"compiled": False, "progress": False, "kernel": "none"}
    found = find_functions(maker(body), body, Budget(280.0), **options)
    assert found.error < 1
    assert 160 < clock[0] <= 280 + 10  # to the end of a block
    assert "no iteration in its time" in found.tried[-1]


def test_the_earliest_time_counts(clock):
    with until(2.0), until(3.0):
        clock[0] = 2.5
        with pytest.raises(TimeIsUp):
            check_time()
        with until(4.0, anew=True):
            check_time()
    check_time()


@pytest.mark.parametrize("compiles", [True, False])
def test_a_model_that_cannot_be_compiled_does_not_grow(body, monkeypatch, compiles):
    def refuse(*_, **__):
        if not compiles:
            warnings.warn("vpff trains in PyTorch, not compiled: for a test", stacklevel=2)

    monkeypatch.setattr(trainer, "compile_for_training", refuse)
    found = find_functions(maker(body), body, Budget(None, 100), progress=False, kernel="none")
    assert (count(found.model) > 18) == compiles
