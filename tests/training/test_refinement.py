"""Generating functions of noisy states, refined by orbits."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import vpintegrator as vp
from vpintegrator.cli.train import main
from vpintegrator.training import refinement
from vpintegrator.training.refinement import best_refined, is_noisy, refine
from vpintegrator.training.residuals import relative_error
from vpintegrator.training.training_data import TrainingData


def generated(path, noise=1e-2, **options):
    sizes = {"count": 40, "steps": 20} | options
    return vp.generate("pendulum", path, observation={"relative_noise": noise}, **sizes)


def exact_error(model, tmp_path):
    """Beside states without noise."""
    clean = tmp_path / "clean.h5"
    if not clean.exists():
        vp.generate("pendulum", clean, count=30, steps=20, seed=5)
    data = TrainingData(vp.open_dataset(clean))
    return relative_error(model, *data.held_out(model), scale=data.error_scale)


def solved(data, **options):
    def make(arguments):
        return vp.models.build(data.system, "sgf", **arguments)

    return vp.training.find_generating_function(make, data, **options)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("count", "steps", "words", "better"),
    [
        (1500, 1, "a fit to orbits of 1 step", 1.0),  # the validation group may see no improvement
        (250, 7, "a fit to orbits of 5 steps", 1.5),
    ],
)
def test_the_map_behind_the_noise(count, steps, words, better, tmp_path):
    data = generated(tmp_path / "a.h5", count=count, steps=steps)
    lines, sizes = [], {"degree": 4}
    plain = solved(data, refine=False, sizes=sizes)
    found = solved(data, sizes=sizes, tell=lines.append)
    assert exact_error(found.model, tmp_path) <= exact_error(plain.model, tmp_path) / better
    assert lines[-1] == found.tried[-1]
    assert words in lines[-1]
    assert found.history.epochs == plain.history.epochs + 1 == 2
    assert found.history.best_epoch == (2 if lines[-1].startswith("refined by") else 1)
    assert json.loads(found.model.metadata["search"]) == found.tried
    stored = json.loads(found.model.metadata["training"])
    assert stored["best_validation_error"] == found.error
    again = solved(data, sizes=sizes)
    own, other = (each.model.state_dict() for each in (found, again))
    assert all(torch.equal(own[name], other[name]) for name in own)


def test_exact_states_are_not_refined(tmp_path):
    data = vp.generate("pendulum", tmp_path / "a.h5", count=30, steps=20)
    assert not is_noisy(TrainingData(data), 1e-3)
    states = np.concatenate([data.states(group) for group in ("train", "validation", "test")])
    measured = TrainingData(vp.import_dataset(states, tmp_path / "b.h5", step=data.step))
    assert is_noisy(measured, 1e-3) and not is_noisy(measured, 1e-10)
    assert "refined" not in solved(measured.dataset).tried[-1]


def test_a_refinement_that_is_no_better_is_left_out(tmp_path, monkeypatch):
    data = generated(tmp_path / "a.h5", count=80)
    model = solved(data, refine=False, sizes={"degree": 4}).model
    before, metadata = {n: v.clone() for n, v in model.state_dict().items()}, dict(model.metadata)

    def worse(model, *_, **__):
        model.metadata["orbits"] = "worse"
        with torch.no_grad():
            model.core.potential.coefficients.mul_(1.5)

    monkeypatch.setattr(refinement, "fit_orbits", worse)
    found = refine(model, TrainingData(data))
    assert found.before == found.after
    assert model.metadata == metadata
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_all_orbits_of_few_data_are_fitted_and_left_out_ones_are_compared(tmp_path):
    data = TrainingData(generated(tmp_path / "a.h5", steps=10))
    model = solved(data.dataset, refine=False, sizes={"degree": 4}).model
    found = refine(model, data)
    assert found.after < found.before and found.length == 10
    assert (
        f"fitted to {len(data.held('train')) + len(data.held('validation'))} segments"
        in (model.metadata["orbits"])
    )
    assert found.error == found.left_out == pytest.approx(1e-2, rel=0.2)
    assert model.posterior.errors == "states"


def test_few_orbits_stay_as_they_were_if_the_time_is_up(tmp_path):
    data = TrainingData(generated(tmp_path / "a.h5", steps=10))
    model = solved(data.dataset, refine=False, sizes={"degree": 4}).model
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = refine(model, data, seconds=0.0)
    assert found.words.startswith("not refined") and not found.after < found.before
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert "orbits" not in model.metadata and model.posterior is not None


def test_degrees_rise_as_long_as_orbits_come_nearer(monkeypatch):
    after = iter([3.0, 2.0, 1.95, 1.0])

    def refined(model, *_):
        return refinement.Refinement(model, 20, 9.0, next(after), 0.1)

    monkeypatch.setattr(refinement, "refine", refined)
    assert best_refined(["a", "b", "c", "d"], None).model == "b"
    assert best_refined([], None) is None
    assert best_refined(["a"], None, end=0.0) is None


@pytest.mark.parametrize("orbits", [None, "0"])
def test_the_command(orbits, tmp_path):
    generated(tmp_path / "a.h5", count=250, steps=5)
    output = tmp_path / "m.safetensors"
    arguments = [str(tmp_path / "a.h5"), "--model", "sgf", "--degree", "4", "-o", str(output)]
    arguments += ["--no-verdict", *(["--orbits", orbits] if orbits else [])]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert ("refined by a fit" in result.output) == (orbits is None)
    model = vp.load(output)
    assert ("orbits" in model.metadata) == (orbits is None)
    error = json.loads(model.metadata["training"])["best_validation_error"]
    assert f"validation {error:.2e}" in result.output
