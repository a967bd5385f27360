"""Training that is interrupted, killed and resumed: nothing lost, and the same in the end."""

import json
import math
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from tests.training.conftest import ITERATIVE
from vpintegrator import models
from vpintegrator.data import generate
from vpintegrator.errors import InputError
from vpintegrator.training import Objective, relative_error, train
from vpintegrator.training.residuals import Residuals
from vpintegrator.training.training_data import TrainingData

from .conftest import weights

ADAM = {"optimizer": "adam", "batch": 100, "epochs": 5}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("resume") / "small.h5"
    return generate("rigid-body", path, count=40, steps=4)


def interrupting(epochs):
    def progress(history):
        if history.epochs == epochs:
            raise KeyboardInterrupt

    return progress


@pytest.fixture(scope="module")
def interrupted(small, tmp_path_factory):
    path = tmp_path_factory.mktemp("interrupted") / "checkpoint"
    train(a_model(small), small, **ADAM, checkpoint=path, progress=interrupting(3))
    return path.read_bytes()


@pytest.fixture
def begun(interrupted, tmp_path):
    """The checkpoint of a training that was interrupted after three of five epochs."""
    path = tmp_path / "checkpoint"
    path.write_bytes(interrupted)
    return path


def a_model(data, width=4, depth=1, **options):
    torch.manual_seed(0)
    symmetries = data.system.reversing_symmetries
    return models.VolumePreservingFeedForward(
        dim=3, width=width, depth=depth, reversing_symmetries=symmetries, **options
    )


@pytest.fixture
def one_step(small):
    return lambda **options: a_model(small, **options)


# --------------------------------------------------------------------- what must be as it was


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 1e-3}, "its learning rate was not given, now it is 0.001"),
        ({"batch": 50}, "its batch was 100, now it is 50"),
        ({"noise": 1e-3}, "its noise was 0.0, now it is 0.001"),
        ({"horizon": 2}, "its horizon was 1, now it is 2"),
        ({"loss": "relative"}, "its loss was mean-square, now it is relative"),
        ({"restarts": 2}, "its restarts was 1, now it is 2"),
        ({"seed": 1}, "its seed was 0, now it is 1"),
        ({"optimizer": "l-bfgs"}, "its optimizer was adam, now it is l-bfgs"),
        ({"normalise": False}, "its normalisation was not given"),
    ],
)
def test_what_changes_the_mathematics_is_refused(small, one_step, begun, change, message):
    before = begun.read_bytes()
    with pytest.raises(InputError, match=r"of another training.*use the same options") as error:
        train(one_step(), small, **ADAM | change, checkpoint=begun, resume=True)
    assert message in str(error.value)
    assert begun.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 6}, "its width was 4, now it is 6"),
        ({"dtype": torch.float32}, "its dtype was float64, now it is float32"),
    ],
)
def test_another_model_is_refused(small, one_step, begun, options, message):
    with pytest.raises(InputError, match=message):
        train(one_step(**options), small, **ADAM, checkpoint=begun, resume=True)


def test_other_trained_weights_and_other_data_are_refused(body, small, one_step, begun):
    model = one_step()
    next(model.parameters()).requires_grad_(False)
    with pytest.raises(InputError, match="its fixed weights was"):
        train(model, small, **ADAM, checkpoint=begun, resume=True)
    with pytest.raises(InputError, match="its dataset was"):
        train(one_step(), body, **ADAM, checkpoint=begun, resume=True)


def test_what_changes_nothing_may_change(small, one_step, begun):
    whole, resumed = one_step(), one_step()
    train(whole, small, **ADAM)
    options = {"checkpoint_seconds": 1.0, "target": 1e-9, "seconds": 1e4}
    train(resumed, small, **ADAM | options, checkpoint=begun, resume=True)
    assert torch.equal(weights(resumed), weights(whole))
    assert not begun.exists()


def test_the_weights_of_the_model_that_is_given_do_not_matter(small, one_step, begun):
    whole, other = one_step(), one_step()
    train(whole, small, **ADAM)
    with torch.no_grad():
        next(other.parameters()).add_(1.0)
    train(other, small, **ADAM, checkpoint=begun, resume=True)
    assert torch.equal(weights(other), weights(whole))


# --------------------------------------------------------------------------------- the budget


@pytest.mark.parametrize("budget", [{"seconds": 1e-3}, {"epochs": 2}])
def test_a_budget_that_is_used_up_is_refused(small, one_step, begun, budget):
    before = begun.read_bytes()
    options = {"optimizer": "adam", "batch": 100} | budget
    with pytest.raises(InputError, match="leaves nothing to do; give more"):
        train(one_step(), small, **options, checkpoint=begun, resume=True)
    assert begun.read_bytes() == before


def test_the_former_budget_goes_on_if_none_is_given(small, one_step, begun):
    options = {"optimizer": "adam", "batch": 100}
    history = train(one_step(), small, **options, checkpoint=begun, resume=True)
    assert (history.stopped_by, history.epochs) == ("epochs", 5)


def test_a_training_killed_after_its_last_epoch_is_finished_without_another(
    small, one_step, tmp_path
):
    path, whole = tmp_path / "checkpoint", one_step()
    train(whole, small, **ADAM)
    train(
        one_step(),
        small,
        **ADAM,
        checkpoint=path,
        checkpoint_seconds=0,
        progress=interrupting(5),
    )
    resumed = one_step()
    history = train(resumed, small, **ADAM, checkpoint=path, resume=True)
    assert history.epoch == [1, 2, 3, 4, 5]
    assert torch.equal(weights(resumed), weights(whole))
    assert not path.exists()


def test_resuming_where_nothing_was_recorded_begins(small, one_step, tmp_path):
    history = train(one_step(), small, **ADAM, checkpoint=tmp_path / "none", resume=True)
    assert history.epochs == 5


def test_the_share_of_the_budget(small, one_step):
    seen = []
    options = {"optimizer": "adam", "batch": 100, "epochs": 4, "seconds": 1e6}
    train(one_step(), small, **options, progress=lambda history: seen.append(history.share))
    assert seen == [0.25, 0.5, 0.75, 1.0]


# ----------------------------------------------------------- interrupts and kills at any moment


@pytest.mark.parametrize("name", ITERATIVE)
def test_an_interrupt_within_an_epoch_changes_nothing(small, one_step, name, tmp_path, monkeypatch):
    """The epoch is done again from its beginning, with the same windows and the same noise."""
    # the second of these are the slowest
    epochs, batch = (3, 60) if name in ("levenberg-marquardt", "adam") else (2, 12)
    options = {"optimizer": name, "epochs": epochs, "batch": batch, "noise": 1e-4}
    whole = one_step()
    calls, original = [], Objective.difference

    def difference(self, *arguments):
        calls.append(0)
        if len(calls) == at:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(Objective, "difference", difference)
    at = 0
    train(whole, small, **options)
    count = len(calls)
    path, resumed = tmp_path / "checkpoint", one_step()
    for at in (count // 2, 2 * count // 3, 3):  # noqa: B007 - the patch sees it
        calls.clear()
        train(resumed, small, **options, checkpoint=path, resume=True)
    at = 0
    train(resumed, small, **options, checkpoint=path, resume=True)
    assert torch.equal(weights(resumed), weights(whole))


@pytest.mark.parametrize("at", [3, 9, 13, 20, 28])
def test_an_interrupt_during_random_starts_ends_training(small, one_step, at, tmp_path):
    """And keeps the best model so far; resumed, all is as without."""
    options = ADAM | {"epochs": 18, "restarts": 3, "compiled": False}
    path, model, resumed, whole = tmp_path / "checkpoint", one_step(), one_step(), one_step()
    expected = train(whole, small, **options)
    with InterruptedEpoch(at):
        history = train(model, small, **options, checkpoint=path)
    assert history.stopped_by == "interrupt"
    assert history.best_validation_error < math.inf
    assert error_of(model, small) == history.best_validation_error
    history = train(resumed, small, **options, checkpoint=path, resume=True)
    assert history.validation_error == expected.validation_error
    assert torch.equal(weights(resumed), weights(whole))
    assert not path.exists()


def error_of(model, data):
    read = TrainingData(data)
    return relative_error(model, *read.held_out(model), scale=read.error_scale)


class InterruptedEpoch:
    """Ctrl-C in the middle of some epoch, counted over all starts, twice a epoch."""

    def __init__(self, at):
        self.at, self.calls = at, 0

    def __enter__(self):
        self.original = original = Residuals.gradient

        def gradient(inner, *arguments):
            self.calls += 1
            if self.calls == self.at:
                signal.raise_signal(signal.SIGINT)
            return original(inner, *arguments)

        Residuals.gradient = gradient

    def __exit__(self, *_):
        Residuals.gradient = self.original


def test_the_best_start_is_the_least_that_is_kept(small, one_step):
    """A rate that spoils everything: what remains is the best of the trials."""
    options = ADAM | {"epochs": 12, "restarts": 2, "learning_rate": 0.5, "seed": 3}
    model = one_step()
    history = train(model, small, **options)
    assert error_of(model, small) == history.best_validation_error
    assert history.best_validation_error <= min(history.validation_error)


class Killed(BaseException):
    """What SIGKILL would be if it were an exception: nothing reaches the disk any more."""


@pytest.fixture
def killed_at(monkeypatch):
    """Let a training be killed at its n-th access to the disk, in the middle if it is a write."""
    count = at = 0

    def patch(owner, name, half=None):
        original = getattr(owner, name)

        def call(*arguments, **others):
            nonlocal count
            count += 1
            if count == at and half:
                half(*arguments)
            if 0 < at <= count:
                raise Killed
            return original(*arguments, **others)

        monkeypatch.setattr(owner, name, call)

    write = Path.write_bytes
    patch(Path, "write_bytes", lambda path, data: write(path, data[: len(data) // 2]))
    patch(Path, "replace")
    patch(Path, "unlink")
    patch(os, "link")
    patch(os, "fsync")
    monkeypatch.setattr("vpintegrator.storage.files._is_alive", lambda process: False)

    def run(number, function):
        nonlocal count, at
        count, at = 0, number
        try:
            function()
        except Killed:
            return True
        finally:
            at = 0
        return False

    return run


def test_killed_at_any_access_to_the_disk_it_resumes_to_the_same(
    small, one_step, tmp_path, killed_at
):
    """Before and in the middle of each write, and before each change of the folder."""
    options = ADAM | {"epochs": 2, "compiled": False, "checkpoint_seconds": 0}
    whole = one_step()
    train(whole, small, **options)
    output, number = tmp_path / "model.safetensors", 1
    options |= {"checkpoint": tmp_path / "checkpoint", "output": output}
    while killed_at(number, lambda: train(one_step(), small, **options)):
        if output.exists():
            models.load(output)
        resumed = one_step()
        train(resumed, small, **options, resume=True, overwrite=True)
        assert torch.equal(weights(resumed), weights(whole))
        assert torch.equal(weights(models.load(output)), weights(whole))
        assert [file.name for file in tmp_path.iterdir()] == [output.name]
        output.unlink()
        number += 1
    assert number > 12


# ------------------------------------------------------------------------------ damaged files


def damaged(path, change):
    """Rewrite a checkpoint with another header and other tensors."""
    with safe_open(path, framework="pt") as file:
        header = dict(file.metadata())
    tensors = load_file(path)
    change(header, tensors)
    save_file(tensors, path, header)


def in_json(part, **values):
    def change(header, tensors):
        header[part] = json.dumps(json.loads(header[part]) | values)

    return change


def in_tensors(name, tensor):
    def change(header, tensors):
        tensors[name] = tensor(tensors[name])

    return change


def random_numbers(left, at):
    def change(header, tensors):
        state = tensors["generator/state"]
        state[8:24] = torch.from_numpy(
            np.frombuffer(
                np.array([left], "<i4").tobytes() + b"\1\0\0\0" + np.array([at], "<u8").tobytes(),
                dtype=np.uint8,
            ).copy()
        )

    return change


DAMAGE = {
    "deep JSON": lambda header, _: header.update(history="[" * 100_000),
    "no history": lambda header, _: header.pop("history"),
    "no table": lambda header, _: header.update(numbers="3"),
    "endless number": lambda header, _: header.update(numbers="9" * 5000),
    "unknown field": in_json("history", colour=1),
    "wrong field": in_json("history", best_epoch=[1]),
    "later best": in_json("history", best_epoch=17),
    "text for a number": in_json("history", best_validation_error="0.1"),
    "unknown end": in_json("history", stopped_by="\x1b[31m"),
    "trials": in_json("stage", done=5),
    "stage": in_json("stage", error="x"),
    "budget": in_json("budget", epochs=-3),
    "rate": in_json("numbers", learning_rate=math.nan),
    "true is no number": in_json("numbers", learning_rate=True),
    "huge number": in_json("numbers", learning_rate=10**400),
    "shorter curve": in_tensors("history/training_error", lambda t: t[:-1].clone()),
    "flat curve": in_tensors("history/seconds", lambda t: t[0].clone()),
    "endless seconds": in_tensors("history/seconds", lambda t: t * math.inf),
    "shape": in_tensors("best/scale", lambda t: t[:-1].clone()),
    "type": in_tensors("model/shift", lambda t: t.float()),
    "no scale": in_tensors("model/scale", lambda t: 0 * t),
    "moments": in_tensors("optimizer/0.exp_avg", lambda t: t[:3].clone()),
    "moments of another type": in_tensors("optimizer/0.exp_avg_sq", lambda t: t.half()),
    "no step": lambda _, tensors: tensors.pop("optimizer/0.step"),
    "another group": lambda _, tensors: tensors.update({"more/x": torch.zeros(1)}),
    "one more": lambda _, tensors: tensors.update({"optimizer/x": torch.zeros(1)}),
    "no weights": lambda _, tensors: tensors.pop("model/scale"),
    "random numbers cut": in_tensors("generator/state", lambda t: t[:-1].clone()),
    "random numbers of no twister": in_tensors("generator/state", lambda t: 0 * t),
    "random numbers beyond the end": random_numbers(600, 600),
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_checkpoint_is_refused(small, one_step, begun, change):
    damaged(begun, change)
    before = begun.read_bytes()
    with pytest.raises(InputError, match="checkpoint is damaged") as error:
        train(one_step(), small, **ADAM, checkpoint=begun, resume=True)
    assert len(str(error.value)) < 400
    assert begun.read_bytes() == before


@pytest.mark.parametrize("name", ["levenberg-marquardt", "gauss-newton", "l-bfgs"])
def test_no_part_of_an_optimizer_may_be_missing_or_other(small, one_step, name, tmp_path):
    path = tmp_path / "checkpoint"
    options = {"optimizer": name, "epochs": 3, "batch": 20, "compiled": False}
    train(one_step(), small, **options, checkpoint=path, progress=interrupting(2))
    sound = path.read_bytes()
    keys = [key for key in load_file(path) if key.startswith("optimizer/")]
    assert len(keys) >= 3
    for key in keys[:: max(len(keys) // 4, 1)]:
        for change in (
            lambda _, tensors, key=key: tensors.pop(key),
            in_tensors(key, lambda t: torch.zeros(7, 2, dtype=t.dtype)),
            in_tensors(key, lambda t: t.int()),
        ):
            path.write_bytes(sound)
            damaged(path, change)
            with pytest.raises(InputError, match="checkpoint is damaged"):
                train(one_step(), small, **options, checkpoint=path, resume=True)
    for number in json.loads(safe_open(path, framework="pt").metadata()["numbers"]):
        path.write_bytes(sound)
        damaged(
            path,
            lambda header, _, number=number: header.update(
                numbers=json.dumps(
                    {k: v for k, v in json.loads(header["numbers"]).items() if k != number}
                )
            ),
        )
        with pytest.raises(InputError, match="checkpoint is damaged"):
            train(one_step(), small, **options, checkpoint=path, resume=True)
