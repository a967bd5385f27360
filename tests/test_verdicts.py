"""Verdicts: a trained model beside classical methods of the same step."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

import vpintegrator as vp
from vpintegrator.cli import gen as generate_command
from vpintegrator.cli import train as train_command
from vpintegrator.errors import InputError
from vpintegrator.training.training_data import TrainingData
from vpintegrator.verdicts import KEY, NAMES, Performance, Verdict


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    path = tmp_path_factory.mktemp("verdicts") / "pendulum.h5"
    return vp.generate("pendulum", path, count=40, steps=10)


def trained(dataset, degree):
    model = vp.models.build(dataset.system, "sgf", degree=degree)
    vp.train(model, dataset, optimizer="linear")
    return model


def test_errors_are_those_of_one_step_on_the_test_group(pendulum):
    model = trained(pendulum, 8)
    found = vp.verdict(model, pendulum, seconds=0)
    test = pendulum.states("test")
    first, image = test[:, :-1].reshape(-1, 2), test[:, 1:].reshape(-1, 2)
    spread = pendulum.states("train").reshape(-1, 2).std(0)
    for each in found.methods:
        other = vp.integrate(pendulum.system, each.name, first, pendulum.step, 1)[:, 1]
        error = np.sqrt(((other - image) ** 2).sum(1).mean() / (spread**2).sum())
        assert each.error == pytest.approx(error, rel=0.3)
    assert found.model.error == pytest.approx(json.loads(model.metadata["training"])["test_error"])
    assert [each.error for each in found.methods] == sorted(each.error for each in found.methods)
    assert {each.name for each in found.methods} == {*NAMES}
    assert all(math.isnan(each.cost) for each in (found.model, *found.methods))


def test_the_better_one_is_named(pendulum):
    good = vp.verdict(trained(pendulum, 12), pendulum, seconds=0)
    poor = vp.verdict(trained(pendulum, 2), pendulum, seconds=0)
    best = good.methods[0].name
    assert good.sentence.startswith("A step of this model errs ") and best in good.sentence
    assert poor.sentence.startswith(f"{best} is better here: it errs ")


def test_costs_are_measured(pendulum):
    found = vp.verdict(trained(pendulum, 4), pendulum, seconds=60)
    costs = {each.name: each.cost for each in (found.model, *found.methods)}
    assert all(0 < cost < 1 for cost in costs.values())
    assert "cost" in found.sentence


@pytest.mark.parametrize(
    ("own", "other", "sentence"),
    [
        ((1e-9, 2e-7), (1e-7, 2e-6), "errs 100 times less than rk4 at 1/10 of its cost."),
        ((1e-9, math.nan), (1.5e-9, 1e-7), "errs as little as rk4."),
        ((1e-4, 1e-6), (1e-6, 1e-8), "rk4 is better here: it errs 100 times less at 1/100 of its"),
    ],
)
def test_sentences(own, other, sentence):
    found = Verdict(Performance("sgf", *own), [Performance("rk4", *other)])
    assert sentence in found.sentence


def test_texts_are_read_again_and_others_refused():
    found = Verdict(Performance("sgf", 1e-9), [Performance("rk4", 1e-5, 1e-8)])
    again = Verdict.from_text(found.text, "the file")
    assert again.methods == found.methods and again.model.error == 1e-9
    assert math.isnan(again.model.cost)
    lost = Verdict(Performance("sgf", math.inf), found.methods)
    assert Verdict.from_text(lost.text, "the file").model.error == math.inf
    assert "rk4 is better here" in lost.sentence
    for text in ("[1", "{}", '{"model": {"name": "a", "error": 1}, "methods": []}', '{"model": 1}'):
        with pytest.raises(InputError, match="the file"):
            Verdict.from_text(text, "the file")


def test_no_verdict_for_maps(tmp_path):
    standard = vp.generate("standard-map", tmp_path / "map.h5", count=20, steps=10)
    model = vp.models.build(standard.system, "sgf", degree=2)
    assert vp.verdict(model, standard) is None


def test_families_are_judged_at_the_conditions_of_each_trajectory(tmp_path):
    name, vary = "rigid-body", {"step": (0.1, 0.3), "I1": (0.9, 1.1)}
    family = vp.generate(name, tmp_path / "family.h5", count=20, steps=5, vary=vary)
    data = vp.data.ExtendedDataset(family)
    model = vp.models.build(data.system, functions="polynomial", degree=2, depth=1)
    found = vp.verdict(model, data, seconds=0)
    assert {each.name for each in found.methods} == {*NAMES} - {"stoermer-verlet"}
    spread = TrainingData(data).error_scale.spread
    for each in found.methods:
        wrong = []
        for states, values in zip(family.states("test"), family.conditions("test"), strict=True):
            own = dict(zip(family.varied, map(float, values), strict=True))
            step = own.pop("step", None) or family.step
            system = vp.load_system(name, **own)
            image = vp.integrate(system, each.name, states[:-1], step, 1)[:, 1]
            wrong.append(image - states[1:])
        error = np.sqrt((np.concatenate(wrong) ** 2).sum(1).mean()) / spread
        assert each.error == pytest.approx(error, rel=1e-6, abs=1e-15)


def test_the_command_says_and_keeps_it(pendulum, tmp_path):
    path = tmp_path / "model.safetensors"
    arguments = [str(pendulum.path), "-o", str(path), "--model", "sgf", "--degree", "10"]
    result = CliRunner().invoke(train_command.main, [*arguments, "-v"])
    assert result.exit_code == 0, result.output
    assert "one step ahead" in result.output and "A step of this model errs" in result.output
    kept = Verdict.from_text(vp.load(path).metadata[KEY], "the model")
    assert kept.sentence in result.output
    shown = CliRunner().invoke(generate_command.main, ["--inspect", str(path)])
    assert " ".join(kept.sentence.split()) in " ".join(shown.output.split())
    told = CliRunner().invoke(train_command.main, [*arguments, "--overwrite", "--json"])
    assert json.loads(told.stdout)["verdict"]["methods"][0]["name"] == kept.methods[0].name
    silent = CliRunner().invoke(train_command.main, [*arguments, "--overwrite", "--no-verdict"])
    assert "one step ahead" not in silent.output and KEY not in vp.load(path).metadata


def test_models_of_windows_with_attention_at_rest(pendulum):
    """They are simplified first, as in rollouts; their windows are those of the simplified map."""
    model = vp.models.build(pendulum.system, "spt", window=3, functions="polynomial", degree=4)
    vp.models.growth.freeze_attention(model)
    found = vp.verdict(model, pendulum, seconds=60)
    assert math.isfinite(found.model.error) and found.model.cost > 0
