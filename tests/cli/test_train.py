"""vp-train."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.conftest import refused
from vpintegrator.cli.train import MODELS, main
from vpintegrator.data import generate
from vpintegrator.models import ARCHITECTURES, load


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "body.h5"
    return generate("rigid-body", path, count=100, steps=6).path


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_model_trains(run, body, name):
    result = run(
        main, body, "--model", name, "--width", "4", "--epochs", "2", "-o", "a.safetensors"
    )
    assert result.exit_code == 0, result.output
    assert "relative error one window ahead" in result.output
    model = load("a.safetensors")
    assert model.name == name
    assert model.metadata["system_name"] == "rigid-body"


def test_the_help_describes_every_model(run):
    assert {name: model.description for name, model in ARCHITECTURES.items()} == MODELS
    output = run(main, "--help").output
    for name in ARCHITECTURES:
        assert f"  {name} " in output


def test_options_reach_the_model(run, body):
    options = ["--window", "2", "--prediction-window", "1", "--depth", "1", "--no-reversible"]
    result = run(main, body, *options, "--option", "time_mixing=true", "--epochs", "1")
    assert result.exit_code == 0, result.output
    model = load("rigid-body-vpt.safetensors")
    assert (model.window, model.prediction_window, model.arguments["depth"]) == (2, 1, 1)
    assert model.arguments["time_mixing"]
    assert len(model.reversing_symmetries) == 0


@pytest.mark.parametrize(
    ("option", "argument", "value"),
    [
        ("stiefel=false", "stiefel", False),
        ("residual=No", "residual", False),
        ("positions=1", "positions", True),
        ("attention_scale=1", "attention_scale", 1.0),
        ("attention_scale=none", "attention_scale", None),
        ("blocks=2", "blocks", 2),
    ],
)
def test_options_have_the_types_of_the_architecture(run, body, option, argument, value):
    options = ["--model", "transformer", "--option", option, "--epochs", "1", "-o", "a.safetensors"]
    result = run(main, body, *options)
    assert result.exit_code == 0, result.output
    stored = load("a.safetensors").arguments[argument]
    assert (stored, type(stored)) == (value, type(value))


def test_blocks_of_a_split_are_an_option(run, body):
    options = ["--model", "vpff", "--option", "split=0,1|2", "--epochs", "1", "-o", "a.safetensors"]
    result = run(main, body, *options)
    assert result.exit_code == 0, result.output
    assert load("a.safetensors").arguments["split"] == [[0, 1], [2]]


@pytest.mark.parametrize(
    ("options", "weighting", "symmetries", "message"),
    [
        ([], "coupled", 3, "the coupled weighting was chosen"),
        (["--weighting", "coupled"], "coupled", 3, "(coupled weighting)"),
        (["--weighting", "skew"], "skew", 2, "2 of the system's 3 reversing symmetries"),
        (["--weighting", "arbitrary"], "arbitrary", 0, "none of the system's 3"),
        (["--feed-forward", "triangular"], "skew", 2, "never move the components [1]"),
        (["--no-reversible"], "skew", 0, "(skew weighting)"),
    ],
)
def test_what_is_chosen_is_said(run, body, options, weighting, symmetries, message):
    result = run(main, body, *options, "--depth", "1", "--epochs", "1", "-o", "a.safetensors")
    assert result.exit_code == 0, result.output
    assert message in result.output
    model = load("a.safetensors")
    assert model.arguments["weighting"] == model.weighting == weighting
    assert len(model.reversing_symmetries) == symmetries


def test_training_goes_on_from_a_model(run, body):
    run(main, body, "--model", "vpff", "--width", "4", "--epochs", "2", "-o", "a.safetensors")
    result = run(main, body, "--start", "a.safetensors", "--epochs", "2", "-o", "b.safetensors")
    assert result.exit_code == 0, result.output
    refusal = run(main, body, "--start", "a.safetensors", "--width", "4", "-o", "c.safetensors")
    assert refused(refusal, "leave out --width")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "vptt"], "there is no model 'vptt'; did you mean 'vpt'"),
        (["--model", "vpff", "--heads", "2"], "the model vpff has no option --heads"),
        (["--option", "dim=5"], "dim is no option"),
        (["--option", "dtype=float32"], "give --dtype"),
        (["--option", "reversing_symmetries=1"], "--no-reversible leaves them out"),
        (["--option", "attention_scale=abc"], "attention_scale must be a number or none"),
        (["--option", "time_mixing=maybe"], "time_mixing must be true or false, not 'maybe'"),
        (["--option", "depht=2"], "vpt has no option 'depht'; did you mean 'depth'?"),
        (["--option", "depth"], "give NAME=VALUE"),
        (["--option", "depth=2", "--depth", "3"], "depth is given twice"),
        (["--option", "split=0|1"], "each of the component indices 0 ... 2 once"),
        (["--option", "split=0,a"], "blocks of indices such as 0,1|2"),
        (["--weighting", "arbitrary", "--reversible"], "or leave out --reversible"),
        (["--weighting", "skew", "--reversible"], 'use "coupled"'),
        (["--width", str(10**13)], "does not fit into memory"),
        (["--optimizer", "sgd"], "optimizer = 'sgd'"),
        (["--seconds", "-1"], "seconds = -1"),
        (["--window", "5"], "need trajectories of 10 states"),
        (["--device", "warp"], "--device warp"),
        (["-o", "no/such/folder.safetensors"], "the folder no/such does not exist"),
        (["--start", "missing.safetensors"], "missing.safetensors"),
    ],
)
def test_mistakes(run, tmp_path, body, arguments, message):
    assert refused(run(main, body, "--epochs", "1", *arguments), message)
    assert list(tmp_path.iterdir()) == []


def test_dimensions_must_agree(run, body):
    generate("pendulum", "pendulum.h5", count=20)
    run(main, body, "--model", "vpff", "--width", "4", "--epochs", "1", "-o", "a.safetensors")
    refusal = run(main, "pendulum.h5", "--start", "a.safetensors", "-o", "b.safetensors")
    assert refused(refusal, "for states of 3 components, but pendulum.h5 holds states of 2")


def test_not_a_dataset(run, tmp_path):
    (tmp_path / "a.h5").write_text("hello")
    assert refused(run(main, "a.h5"), "a.h5 is not an HDF5 file")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_keep_the_best_model(body, tmp_path, number):
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "vpintegrator.cli.train", str(body), "--width", "4"]
    process = subprocess.Popen(
        [*command, "--seconds", "100", "-o", "a.safetensors"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert "volume-preserving" in process.stdout.readline()
    time.sleep(2)
    process.send_signal(number)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 0, output
    assert "interrupted; the best model so far is kept" in output
    assert load(tmp_path / "a.safetensors").name == "vpt"
