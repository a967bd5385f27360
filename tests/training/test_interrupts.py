"""Training that is interrupted: the best weights so far are kept."""

import contextlib
import math
import os
import random
import signal
import threading
import time

import pytest
import torch

from tests.training.conftest import ITERATIVE, weights
from vpintegrator.data import generate
from vpintegrator.runtime.interrupts import check_time, held_back, stopping, unhurried, until
from vpintegrator.training import relative_error, train
from vpintegrator.training.residuals import Objective
from vpintegrator.training.training_data import TrainingData


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("interrupts") / "small.h5"
    return generate("rigid-body", path, count=40, steps=4)


def error_of(model, dataset):
    data = TrainingData(dataset)
    return relative_error(model, *data.held_out(model), scale=data.error_scale)


@pytest.mark.parametrize("name", ITERATIVE)
def test_an_interrupt_within_an_epoch_keeps_the_best(small, one_step, name, monkeypatch):
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
        model = one_step()
        before = weights(model)
        if at == 1:  # before the end of the first epoch nothing is learned
            with pytest.raises(KeyboardInterrupt):
                train(model, small, **options)
            assert model.record.history is None
            assert torch.equal(weights(model), before)
            continue
        history = train(model, small, **options)
        assert history.stopped_by == "interrupt"
        assert history.validation_error == whole.validation_error[: history.epochs]
        assert error_of(model, small) == history.best_validation_error < math.inf


def test_a_training_goes_on_from_the_best(small, one_step):
    model = one_step()
    first = train(model, small, optimizer="adam", batch=40, epochs=3)
    second = train(model, small, optimizer="adam", batch=40, epochs=2, learning_rate=1e3)
    assert second.best_validation_error == first.best_validation_error
    assert error_of(model, small) == first.best_validation_error


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.filterwarnings("ignore:vpff is not to be relied on")
def test_a_signal_at_any_moment_keeps_the_best_that_was_shown(small, one_step, seed):
    """Also one that comes before training."""
    model, seen = one_step(), []
    delay = random.Random(seed).uniform(0.0, 0.4)
    timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
    with contextlib.suppress(KeyboardInterrupt):
        timer.start()
        options = {"optimizer": "adam", "batch": 40, "epochs": 3 + seed % 5 * 5}
        options["progress"] = lambda history: seen.append(history.best_validation_error)
        train(model, small, compiled=False, **options)
        timer.join()
        time.sleep(0.01)  # a signal after the end is no matter of the training
    if seen:
        stored = model.record.history.best_validation_error
        assert error_of(model, small) == stored <= min(seen)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def interrupt():
    signal.raise_signal(signal.SIGINT)


def test_a_signal_ends_all_blocks_round_the_work_between_two_parts_of_it():
    done = []
    with stopping() as outer:
        with stopping() as inner:
            interrupt()
            done.append("the part at hand")
            check_time()
            done.append("never")
        with unhurried():
            check_time()
        done.append("what belongs to the result")
        check_time()
        done.append("never")
    assert done == ["the part at hand", "what belongs to the result"]
    assert (inner.by, outer.by) == ("interrupt", "interrupt")
    with stopping() as outer:  # the time of an inner block is none of the outer one
        with stopping() as inner, until(0.0):
            check_time()
        check_time()
    assert (inner.by, outer.by) == ("seconds", "")


def test_a_second_signal_does_not_wait():
    with stopping() as end:
        interrupt()
        interrupt()
        pytest.fail("the second one was not obeyed")
    assert end.by == "interrupt"


def test_a_signal_that_nothing_has_obeyed_is_raised_at_the_end():
    done = []
    with pytest.raises(KeyboardInterrupt), held_back():
        interrupt()
        check_time()
        done.append("the work that must be done")
    assert done
    with held_back() as signals:
        interrupt()
        assert signals
        signals.forget()
    with held_back():
        with stopping() as end:
            interrupt()
        interrupt()  # it asks for no more than the first
    assert end.by == "interrupt"


def test_blocks_outside_of_the_main_thread_leave_signals_alone():
    endings = []

    def work():
        with stopping() as end, held_back(), until(0.0):
            check_time()
        endings.append(end.by)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert endings == ["seconds"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
