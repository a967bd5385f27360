"""Budgets in seconds hold for iterations that take long."""

import importlib
import time
import warnings

import pytest
import torch

import vpintegrator as vp
from tests.training.conftest import weights
from tests.training.test_search import maker
from vpintegrator.runtime.deadline import TimeIsUp, check_time, until
from vpintegrator.training import Budget, find_functions
from vpintegrator.training.optimizers import levenberg_marquardt
from vpintegrator.training.optimizers.levenberg_marquardt import LevenbergMarquardt
from vpintegrator.training.residuals import Residuals, relative_error
from vpintegrator.training.search.sizes import count
from vpintegrator.training.training_data import TrainingData


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


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.filterwarnings("ignore:vpff is not to be relied on")
def test_a_long_iteration_is_left_also_the_first_one(body, one_step, clock, tmp_path, trained):
    options = {"optimizer": "levenberg-marquardt", "compiled": False, "progress": False}
    model = one_step()
    if trained:
        assert vp.train(model, body, seconds=20, **options).epochs == 1
    before, begin = weights(model).clone(), clock[0]
    output = tmp_path / "model.safetensors"
    history = vp.train(model, body, seconds=5, output=output, **options)
    assert (history.epochs, history.stopped_by) == (0, "seconds")
    assert torch.equal(weights(model), before)
    assert clock[0] - begin <= 1.1 * 5 + 1
    assert history.best_validation_error < 1  # of the weights as they were
    assert vp.load(output).metadata["training"]


def test_the_first_epoch_of_gradient_steps_keeps_those_that_were_done(body, one_step, clock):
    """One pass over all windows may take longer than the budget."""
    gradient = Residuals.gradient

    def slow(self, *arguments):
        found = gradient(self, *arguments)
        clock[0] += 1.0
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Residuals, "gradient", slow)
        model = one_step()
        before = weights(model).clone()
        options = {"optimizer": "adam", "batch": 16, "learning_rate": 1e-3, "progress": False}
        history = vp.train(model, body, seconds=5, **options)
    assert (history.epochs, history.stopped_by, clock[0]) == (0, "seconds", 6)
    untrained = one_step()
    data = TrainingData(body)
    data.normalise(untrained)
    error = relative_error(untrained, *data.held_out(untrained), scale=data.error_scale)
    assert history.best_validation_error < error
    assert not torch.equal(weights(model), before)


def test_a_search_keeps_to_its_budget(body, clock):
    clock[1] = 10.0  # 160 for an iteration
    options = {"compiled": False, "progress": False, "initial_scheme": "none"}
    found = find_functions(maker(body), body, Budget(280.0), **options)
    assert found.error < 1
    assert 160 < clock[0] <= 280 + 10  # to the end of a block
    assert "no iteration in its time" in found.tried[-1]


@pytest.mark.filterwarnings("ignore:vpff is not to be relied on")
def test_a_search_keeps_to_its_budget_where_no_iteration_fits(body, clock):
    clock[1] = 10.0
    options = {"compiled": False, "progress": False, "initial_scheme": "none"}
    found = find_functions(maker(body), body, Budget(100.0), **options)
    assert clock[0] <= 100 + 10
    assert all("no iteration in its time" in line for line in found.tried)
    assert found.error < 1  # of the model as it began
    history = vp.train(found.model, body, compiled=False, progress=False, seconds=0.1)
    assert history.best_validation_error == found.error


def test_the_earliest_time_counts(clock):
    with until(2.0), until(3.0):
        clock[0] = 2.5
        with pytest.raises(TimeIsUp):
            check_time()
        with until(4.0, anew=True):
            check_time()
    check_time()


@pytest.mark.thorough
@pytest.mark.parametrize("compiles", [True, False])
def test_a_model_that_cannot_be_compiled_does_not_grow(body, monkeypatch, compiles):
    def refuse(*_, **__):
        if not compiles:
            warnings.warn("vpff trains in PyTorch, not compiled: for a test", stacklevel=2)
        return None, ""

    module = importlib.import_module("vpintegrator.training.train")
    monkeypatch.setattr(module, "compile_for_training", refuse)
    found = find_functions(
        maker(body), body, Budget(None, 100), progress=False, initial_scheme="none"
    )
    assert (count(found.model) > 18) == compiles


def test_a_budget_in_epochs_is_one_of_degrees(tmp_path):
    """It was no limit at all: two epochs of vpgf took minutes."""
    data = vp.generate("henon-heiles", tmp_path / "a.h5", count=40, steps=10)

    def make(arguments):
        return vp.models.build(data.system, "sgf", **arguments)

    found = vp.training.find_generating_function(make, data, Budget(epochs=2))
    assert len(found.tried) == found.history.epochs == 2
