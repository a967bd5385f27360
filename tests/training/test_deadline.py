"""Budgets in seconds hold for iterations that take long."""

import importlib
import json
import re
import time
import warnings

import pytest
import torch
from click.testing import CliRunner
from vpintegrator.training.search.sizes import count

import vpintegrator as vp
from tests.training.conftest import weights
from tests.training.test_search import maker
from vpintegrator.cli.train import main
from vpintegrator.runtime.deadline import TimeIsUp, check_time, until
from vpintegrator.training import Budget, find_functions, find_generating_function, find_model
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
    monkeypatch.setattr(module, "compile_residual", refuse)
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


class Steps:
    """A clock on which every look takes a second, so that any look can be the last one."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        self.seconds += 1.0
        return self.seconds


@pytest.fixture
def steps(monkeypatch):
    clock = Steps()
    monkeypatch.setattr(time, "perf_counter", clock)
    return clock


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    path = tmp_path_factory.mktemp("ring") / "ring.h5"
    return vp.generate(vp.load_system("toda", n=3), path, count=10, steps=8)


def searched(data, seconds, composed):
    """The model of a search in so many seconds, and the errors that it printed."""

    def make(name):
        return lambda arguments: vp.models.build(data.system, name, **arguments)

    lines, budget = [], Budget(seconds=seconds, epochs=10)
    options = {"compiled": False, "progress": False, "tell": lines.append}
    options["composed"] = make("split") if composed else None
    found = find_model(None, make("spff"), data, budget, **options)
    errors = re.findall(r"(?:error|parameters:) (\d\.\de[-+]\d+)", " ".join(lines))
    return found, errors


@pytest.mark.parametrize("seconds", [5, 60, 100, 400])
def test_a_splitting_is_kept_whenever_the_time_ends(ring, steps, seconds):
    found, errors = searched(ring, seconds, composed=True)
    assert found.noun == "the splitting" and found.error < 1e-9
    assert f"{found.error:.1e}" == min(errors, key=float)
    assert steps.seconds < seconds + 30


@pytest.mark.parametrize("seconds", [100, 150])
def test_the_best_couplings_are_kept_whenever_the_time_ends(ring, steps, seconds):
    found, errors = searched(ring, seconds, composed=False)
    assert found.error < 1e-3
    assert f"{found.error:.1e}" == min(errors, key=float)
    assert steps.seconds < seconds + 30


def test_no_model_in_the_time_is_a_sentence(ring, steps):
    with pytest.raises(vp.InputError, match="give more"):
        find_generating_function(
            lambda arguments: vp.models.build(ring.system, "sgf", **arguments), ring, Budget(1.0)
        )


@pytest.mark.parametrize("seconds", [5, 30, 60, 200])
def test_vp_train_writes_the_best_model_whenever_the_time_ends(
    ring, tmp_path, monkeypatch, seconds
):
    monkeypatch.setattr(time, "perf_counter", Steps())
    path = tmp_path / "model.safetensors"
    result = CliRunner().invoke(
        main, [str(ring.path), "--seconds", str(seconds), "-o", str(path), "--verbose"]
    )
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    errors = re.findall(r"coefficients, error (\d\.\de[-+]\d+)", text)
    error = json.loads(vp.load(path).metadata["training"])["best_validation_error"]
    assert f"{error:.1e}" == min(errors, key=float)


def test_a_table_that_has_no_time_has_the_error_of_the_model_alone(ring):
    model = vp.models.build(ring.system, "split", stages=1)
    TrainingData(ring).normalise(model)
    assert vp.one_step(model, ring, seconds=0).methods
    with until(0.0):
        table = vp.one_step(model, ring)
    assert [row.name for row in table.rows] == ["split"] and table.rows[0].error < 1
