"""The errors that a training reports, from the saved model by a loop over single windows."""

import dataclasses
import math
from pathlib import Path

import pytest
import torch

import vpintegrator as vp
from vpintegrator.training.results import History
from vpintegrator.training.training_data import TrainingData

NUMBERS = Path(__file__).parents[2] / "docs" / "reference" / "numbers.md"


def relative_error(model, states, training, moving=(0, 1, 2)):
    """Root mean square of the error of the first new state, relative to the spread."""
    window, new = model.window, model.prediction_window
    wrong, count, moving = [], 0, list(moving)
    for orbit in states:
        for start in range(len(orbit) - window - new + 1):
            given, end = orbit[start : start + window], start + window + new
            with torch.no_grad():
                output = model(torch.from_numpy(given[None]).to(model.scale)).numpy()[0]
            predicted, true = output[window - new], orbit[end - new]
            wrong += [float(predicted[i]) - true[i] for i in moving]
            count += 1
    spread = math.hypot(*training.reshape(-1, training.shape[2])[:, moving].std(0))
    return math.hypot(*wrong) / math.sqrt(count) / spread


@pytest.mark.parametrize(
    ("optimizer", "dtype", "compiled"),
    [
        ("levenberg-marquardt", "float64", False),
        ("levenberg-marquardt", "float64", True),
        ("adam", "float32", False),
    ],
)
def test_errors_of_a_training(body, tmp_path, optimizer, dtype, compiled):
    torch.manual_seed(2)
    sizes = {"window": 3, "prediction_window": 2, "depth": 1, "width": 4}
    model = vp.models.StandardTransformer(dim=3, **sizes, dtype=getattr(torch, dtype))
    seen, path = [], tmp_path / "model.safetensors"
    options = {"optimizer": optimizer, "compiled": compiled}
    options["progress"] = lambda history: seen.append(history.validation_error[-1])
    history = vp.train(model, body, epochs=3, **options)
    vp.save(model, path)
    model = vp.load(path)
    rel = 1e-10 if dtype == "float64" else 1e-5
    training = body.states("train")
    groups = {"validation": history.best_validation_error, "test": history.test_error}
    for group, error in groups.items():
        found = relative_error(model, body.states(group), training)
        assert error == pytest.approx(found, rel=rel)
    assert history.validation_error == seen
    assert history.best_validation_error == min(seen)
    assert history.best_epoch == 1 + seen.index(min(seen))
    assert history.parameters == sum(p.numel() for p in model.parameters())
    assert model.record.history.test_error == history.test_error


@pytest.mark.parametrize("name", ["vpff", "resnet"])
@pytest.mark.parametrize(
    ("system", "moving"), [("forced-duffing", [0, 1]), ("heavy-top", [0, 1, 3, 4, 5])]
)
def test_errors_are_of_the_components_that_move(tmp_path, name, system, moving):
    data = vp.generate(system, tmp_path / "a.h5", count=20, steps=20)
    model = vp.models.build(data.system, name, {"width": 4, "depth": 2})
    history = vp.train(model, data, epochs=3, compiled=name == "vpff")
    found = relative_error(model, data.states("test"), data.states("train"), moving)
    assert history.test_error == pytest.approx(found, rel=1e-9)


def test_the_spread_of_an_angle_is_at_most_that_of_all_angles(tmp_path):
    ranges = {"distribution": "uniform", "low": [0, 5], "high": [1, 6]}
    options = {"count": 8, "steps": 500, "initial_conditions": ranges}
    data = vp.generate("pendulum", tmp_path / "a.h5", **options)
    momentum = data.states("train")[..., 1].std()
    expected = math.hypot(momentum, 2 * math.pi / math.sqrt(12))
    assert TrainingData(data).error_scale.spread == pytest.approx(expected)


def test_the_training_error_is_that_of_the_windows_in_use(body, one_step):
    model = one_step()
    options = {"optimizer": "levenberg-marquardt", "batch": 10**6, "compiled": False}  # all windows
    history = vp.train(model, body, epochs=2, **options)
    assert history.best_epoch == 2
    found = relative_error(model, body.states("train"), body.states("train"))
    assert history.training_error[-1] == pytest.approx(found, rel=1e-9)


def test_docs_say_of_every_field_what_it_is():
    text = NUMBERS.read_text(encoding="utf-8")
    for field in dataclasses.fields(History):
        assert f"`{field.name}`" in text, field.name
