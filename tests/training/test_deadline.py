"""Budgets in seconds hold for iterations that take long."""

import itertools
import time

import pytest
import torch

import vpintegrator as vp
from tests.training.conftest import weights
from vpintegrator.runtime.interrupts import TimeIsUp, check_time, until
from vpintegrator.training import Couplings, GeneratingFunctions, Splittings, TrainingOptions
from vpintegrator.training.optimizers import LevenbergMarquardt
from vpintegrator.training.residuals import Residuals, relative_error
from vpintegrator.training.training_data import TrainingData


@pytest.fixture
def clock(monkeypatch):
    """The seconds of a clock, and how many a block of 16 windows takes."""
    seconds = [0.0, 1.0]
    jacobians = LevenbergMarquardt._jacobians

    def slow(self, *arguments):
        for block in jacobians(self, *arguments):
            seconds[0] += seconds[1]
            yield block

    monkeypatch.setattr(LevenbergMarquardt, "_jacobians", slow)
    monkeypatch.setattr(LevenbergMarquardt, "block_bytes", 1)
    monkeypatch.setattr(time, "perf_counter", lambda: seconds[0])
    return seconds


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.filterwarnings("ignore:vpff is not to be relied on")
def test_a_long_iteration_is_left_also_the_first_one(body, one_step, clock, trained):
    options = {"optimizer": "levenberg-marquardt", "compiled": False, "progress": False}
    model = one_step()
    if trained:
        assert vp.train(model, body, seconds=20, **options).epochs == 1
    before, begin = weights(model).clone(), clock[0]
    history = vp.train(model, body, seconds=5, **options)
    assert (history.epochs, history.stopped_by) == (0, "seconds")
    assert torch.equal(weights(model), before)
    assert clock[0] - begin <= 1.1 * 5 + 1
    assert history.best_validation_error < 1  # of the weights as they were
    assert model.record.history


def test_the_first_epoch_of_gradient_steps_keeps_those_that_were_done(
    body, one_step, clock, monkeypatch
):
    """One pass over all windows may take longer than the budget."""
    gradient = Residuals.gradient

    def slow(self, *arguments):
        found = gradient(self, *arguments)
        clock[0] += 1.0
        return found

    monkeypatch.setattr(Residuals, "gradient", slow)
    data, model, untrained = TrainingData(body), one_step(), one_step()
    options = {"optimizer": "adam", "batch": 16, "learning_rate": 1e-3}
    history = vp.train(model, body, seconds=5, **options)
    assert (history.epochs, history.stopped_by, clock[0]) == (0, "seconds", 6)
    data.normalise(untrained)
    error = relative_error(untrained, *data.held_out(untrained), scale=data.error_scale)
    assert history.best_validation_error < error
    assert not torch.equal(weights(model), weights(untrained))


@pytest.mark.parametrize("seconds", [280.0, 100.0])
@pytest.mark.filterwarnings("ignore:vpff is not to be relied on")
def test_a_fit_keeps_to_its_time(body, clock, seconds):
    """Also where no iteration fits into it, which takes 160 seconds: then the first map is kept."""
    clock[1] = 10.0
    training = TrainingOptions(compiled=False, initial_scheme="none")
    result = vp.fit(body, [Couplings(training=training)], seconds=seconds, progress=False)
    assert result.stopped_by == "seconds"
    assert result.error < 1
    assert clock[0] <= seconds + 10  # to the end of a block


def test_the_earliest_time_counts(clock):
    with until(2.0), until(3.0):
        clock[0] = 2.5
        with pytest.raises(TimeIsUp):
            check_time()
        with until(4.0, anew=True):
            check_time()
    check_time()


@pytest.fixture
def looks(monkeypatch):
    """A clock on which every look takes a second, so that any look can be the last one."""
    clock = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    return clock


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    path = tmp_path_factory.mktemp("ring") / "ring.h5"
    return vp.generate(vp.load_system("toda", n=3), path, count=10, steps=8)


@pytest.mark.parametrize("seconds", [20, 60, 100, 400])
@pytest.mark.parametrize(
    "kind", [Splittings(), Couplings(training=TrainingOptions(compiled=False))]
)
@pytest.mark.filterwarnings("ignore:.* is not to be relied on")
def test_the_best_model_is_kept_whenever_the_time_ends(ring, looks, kind, seconds):
    fits = []
    limits = {"seconds": seconds, "epochs": 10}
    result = vp.fit(ring, [kind], equations=True, **limits, progress=fits.append)
    assert [fit.model for fit in result.tried] == [fit.model for fit in fits]
    assert result.error == min(fit.error for fit in fits) < 1e-2
    assert next(looks) < 1.1 * seconds + 30


def test_no_model_in_the_time_is_a_sentence(ring, looks):
    with pytest.raises(vp.InputError, match="give more seconds"):
        vp.fit(ring, [GeneratingFunctions()], seconds=1.0, progress=False)
