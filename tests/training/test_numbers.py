"""The errors that a training reports, from the saved model by a loop over single windows."""

import dataclasses
import json
import math
import re
from pathlib import Path

import pytest
import torch

import vpintegrator as vp
from vpintegrator.training.history import History

NUMBERS = Path(__file__).parents[2] / "docs" / "numbers.md"


def relative_error(model, states):
    """||predicted - true|| / ||true|| over the new states of every pair of windows."""
    window, new = model.window, model.prediction_window
    wrong, size = [], []
    for orbit in states:
        for start in range(len(orbit) - window - new + 1):
            given, end = orbit[start : start + window], start + window + new
            with torch.no_grad():
                output = model(torch.from_numpy(given[None]).to(model.scale)).numpy()[0]
            for predicted, true in zip(output[window - new :], orbit[end - new : end], strict=True):
                wrong += [float(p) - t for p, t in zip(predicted, true, strict=True)]
                size += list(true)
    return math.hypot(*wrong) / math.hypot(*size)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("optimizer", ["levenberg-marquardt", "adam"])
def test_errors_of_a_training(body, tmp_path, optimizer, dtype):
    torch.manual_seed(2)
    model = vp.models.StandardTransformer(
        dim=3, window=3, prediction_window=2, depth=1, width=4, dtype=getattr(torch, dtype)
    )
    seen = []
    history = vp.train(
        model,
        body,
        optimizer=optimizer,
        epochs=3,
        compiled=False,
        progress=lambda h: seen.append(h.validation_error[-1]),
    )
    vp.save(model, tmp_path / "model.safetensors")
    model = vp.load(tmp_path / "model.safetensors")
    rel = 1e-10 if dtype == "float64" else 1e-5
    found = relative_error(model, body.states("validation"))
    assert history.best_validation_error == pytest.approx(found, rel=rel)
    assert history.test_error == pytest.approx(relative_error(model, body.states("test")), rel=rel)
    assert history.validation_error == seen
    assert history.best_validation_error == min(seen)
    assert history.best_epoch == 1 + seen.index(min(seen))
    assert history.parameters == sum(p.numel() for p in model.parameters())
    told = json.loads(model.metadata["training"])
    assert told["test_error"] == history.test_error


def test_the_training_error_is_that_of_the_windows_in_use(body, one_step):
    model = one_step()
    options = {"optimizer": "levenberg-marquardt", "batch": 10**6, "compiled": False}  # all windows
    history = vp.train(model, body, epochs=2, **options)
    assert history.best_epoch == 2
    found = relative_error(model, body.states("train"))
    assert history.training_error[-1] == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize(
    ("best_epoch", "training", "last", "expected"),
    [
        (6, 0.1, 0.5, True),
        (6, 0.1, 0.31, False),  # as good as the best
        (6, 0.3, 0.5, False),  # nothing is learned either
        (60, 0.1, 0.5, False),  # the time was used
        (0, 0.1, 0.5, False),  # an earlier start was better from the beginning
    ],
)
def test_a_training_that_learned_by_heart_is_told(best_epoch, training, last, expected):
    history = History("levenberg-marquardt", 0, 100)
    for epoch in range(1, 101):
        better = epoch == best_epoch
        history.add(float(epoch), 0.2 if better else training, 0.3 if better else last)
    if not best_epoch:
        history.best_epoch, history.best_validation_error = 0, 0.3
    assert history.overfitted is expected
    few = History("adam", 0, 100)
    for error in (0.3, 0.5):
        few.add(1.0, error / 10, error)
    assert not few.overfitted


def test_docs_say_of_every_field_what_it_is():
    text = NUMBERS.read_text(encoding="utf-8")
    for field in dataclasses.fields(History):
        assert f"`{field.name}`" in text, field.name


def test_every_check_that_the_docs_name_is_a_test():
    root = NUMBERS.parents[1]
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", NUMBERS.read_text(encoding="utf-8"))
    assert len(named) > 30
    for file, test in named:
        text = (root / file).read_text(encoding="utf-8")
        assert re.search(rf"^def {test}\(", text, re.MULTILINE), f"{file}::{test}"
