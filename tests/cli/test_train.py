"""vp-train: models and their arguments, files, interruptions, what is printed."""

import errno
import importlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import vpintegrator as vp
from tests.cli.conftest import refused
from vpintegrator.cli.train import main
from vpintegrator.data import Dataset, generate
from vpintegrator.models import ARCHITECTURES, load
from vpintegrator.models.arguments import arguments_of
from vpintegrator.nn import Composition
from vpintegrator.storage.files import locked
from vpintegrator.training.optimizers import Adam

# the name vpintegrator.training.train is that of the function
TRAIN = importlib.import_module("vpintegrator.training.train")
SMALL = ("--model", "vpff", "--width", "2", "--depth", "1")
ADAM = (*SMALL, "--optimizer", "adam", "--batch", "40", "--epochs", "4")


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "body.h5"
    return generate("rigid-body", path, count=100, steps=6).path


@pytest.mark.parametrize("name", sorted({*ARCHITECTURES} - {"classical"}))
def test_every_model_trains(done, name):
    data = generate("henon-heiles", "data.h5", count=100, steps=6).path  # Hamiltonian: for all
    sizes = ["--width", "4"] if "width" in arguments_of(ARCHITECTURES[name]) else []
    output = done(main, data, "--model", name, *sizes, "--epochs", "2")
    assert "relative error one window ahead" in output and len(output.splitlines()) <= 8
    model = load(f"data-{name}.safetensors")
    assert model.name == name
    assert model.metadata["system_name"] == "henon-heiles"


def test_files_are_named_after_the_dataset(run, done, tmp_path, body):
    """Only the file that will be written is looked for."""
    (tmp_path / "body-vpff.safetensors").write_text("precious")
    assert "written to body.safetensors" in done(main, body, *SMALL[2:], "--epochs", "1")
    refusal = run(main, body, *SMALL, "--epochs", "1")
    assert refused(refusal, "body-vpff.safetensors exists already")
    assert (tmp_path / "body-vpff.safetensors").read_text() == "precious"


def test_several_seeds(run, done, body):
    """Each is the training with its seed alone, to the last bit."""
    options = ("--model", "resnet", "--width", "4", "--epochs", "3")
    output = done(main, body, *options, "--seeds", "2", "--seed", "5", "-o", "net.safetensors")
    assert "2 seeds: median error" in output and not Path("net.safetensors").exists()
    for number in range(2):
        done(main, body, *options, "--seed", 5 + number, "-o", f"{number}")
        weights, alone = (
            load(name).state_dict() for name in (f"net-{number}.safetensors", f"{number}")
        )
        assert all(torch.equal(weights[name], alone[name]) for name in alone)
    result = run(main, body, *options, "--seeds", "2", "-o", "net.safetensors")
    assert refused(result, "net-0.safetensors")  # nothing is overwritten
    models = json.loads(done(main, body, *options, "--seeds", "2", "--json"))["models"]
    assert [each["history"]["seed"] for each in models] == [0, 1]


@pytest.mark.filterwarnings("ignore:.* is not to be relied on")
def test_the_published_recipe_is_that_of_python(done, body):
    options = ("--recipe", "published", "--epochs", "2", "--seed", "3")
    output = done(main, body, "--model", "vpt", *options, "-o", "a.safetensors")
    torch.manual_seed(3)
    model = ARCHITECTURES["vpt"].published(3)
    history = vp.train(model, body, recipe="published", epochs=2, seed=3, progress=False)
    assert f"validation {history.best_validation_error:.2e}" in output
    again = load("a.safetensors").state_dict()
    assert all(torch.equal(weight, again[name]) for name, weight in model.state_dict().items())


@pytest.mark.parametrize(
    ("system", "options", "expected"),
    [
        ("duffing", [], "spff"),
        ("duffing", ["--window", "2"], "spt"),
        ("lotka-volterra-2d", [], "spff"),
    ],
)
def test_the_model_suits_the_flow(done, system, options, expected):
    generate(system, "a.h5", count=20, steps=4)
    options = [*options, "--width", "2", "--optimizer", "adam"]
    output = done(main, "a.h5", *options, "--epochs", "1", "-v")
    model = load("a.safetensors")
    assert (model.name, model.prediction_window) == (expected, 1)
    assert f"  {expected} was chosen: " in output


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--window", "2", "--set", "prediction_window=1", "--depth", "1"], {"depth": 1}),
        (["--window", "2", "--set", "time_mixing=true"], {"time_mixing": True}),
        (["--model", "transformer", "--set", "stiefel=false"], {"stiefel": False}),
        (["--model", "transformer", "--set", "attention_scale=none"], {}),
        (["--model", "vpff", "--set", "split=0,1|2"], {"split": [[0, 1], [2]]}),
        (["--model", "resnet", "--width", "6", "--activation", "sin"], {"activation": "sin"}),
    ],
)
def test_arguments_reach_the_model(done, body, options, expected):
    done(main, body, *options, "--epochs", "1", "-o", "a.safetensors")
    arguments = load("a.safetensors").arguments
    assert {name: arguments[name] for name in expected} == expected
    assert "attention_scale" not in arguments


def test_polynomials_know_angles_and_functions_of_the_system(run, done, body):
    generate("pendulum", "a.h5", count=10, steps=4)
    generate("coupled-oscillators", "b.h5", count=10, steps=4)
    few = ("--model", "vpff", "--set", "degree=2", "--epochs", "1", "--overwrite")
    done(main, "a.h5", *few, "--set", "functions=polynomial")
    assert load("a-vpff.safetensors").coordinates.periods == {0: 2 * math.pi}
    done(main, "b.h5", *few, "--set", "functions=system")
    assert load("b-vpff.safetensors").arguments["expressions"] == ["sigmoid(z[0])"]
    refusal = run(main, body, *few, "--set", "functions=system")
    assert refused(refusal, "the equations of rigid-body are unknown, too long, made of")


def test_networks_without_structure_are_as_wide_as_the_budget_allows(done, body):
    def width(*options):
        options = ["--model", "resnet", *options, "-o", "a.safetensors", "-v", "--overwrite"]
        output = done(main, body, *options)
        return load("a.safetensors").arguments["width"], output

    short, output = width("--seconds", "5", "--epochs", "1")
    assert f"width {short} was chosen: 5 s suffice" in " ".join(output.split())
    assert short < width("--epochs", "1")[0]
    assert width("--width", "6", "--epochs", "2")[0] == 6


@pytest.mark.parametrize(
    ("options", "weighting", "symmetries", "message"),
    [
        ([], "coupled", 3, "the coupled weighting was chosen"),
        (["--set", "weighting=skew"], "skew", 2, "2 of the system's 3 reversing symmetries"),
        (["--set", "weighting=arbitrary"], "arbitrary", 0, "none of the system's 3"),
    ],
)
def test_what_is_chosen_is_said(done, body, options, weighting, symmetries, message):
    options = ["--model", "vpt", *options, "--depth", "1", "--epochs", "1", "-v"]
    assert message in done(main, body, *options, "-o", "a.safetensors")
    model = load("a.safetensors")
    assert model.weighting == weighting
    assert len(model.reversing_symmetries) == symmetries


def interrupted_at(monkeypatch, epoch):
    """Let Ctrl-C come within some epoch."""
    original, calls = Adam.epoch, []

    def run(self, progress):
        calls.append(progress)
        if len(calls) == epoch:
            signal.raise_signal(signal.SIGINT)
        return original(self, progress)

    monkeypatch.setattr(Adam, "epoch", run)


def test_an_interrupted_training_goes_on_from_its_model(run, done, body, monkeypatch):
    with monkeypatch.context() as patch:
        interrupted_at(patch, 3)
        output = done(main, body, *ADAM, "-o", "a.safetensors")
    assert "2 epochs, " in output
    assert "interrupted; the best model so far is kept, --start goes on from it" in output
    refusal = run(main, body, *ADAM, "-o", "a.safetensors")
    assert refused(refusal, "a.safetensors exists already")
    options = ("--optimizer", "adam", "--epochs", "2", "-o", "b.safetensors")
    done(main, body, "--start", "a.safetensors", *options)
    assert load("b.safetensors").metadata["start"] == "a.safetensors"
    first, second = (json.loads(load(f"{name}.safetensors").metadata["training"]) for name in "ab")
    assert second["best_validation_error"] <= first["best_validation_error"]


@pytest.mark.parametrize(
    ("place", "number"),
    [
        ((Dataset, "states"), signal.SIGINT),
        ((TRAIN, "compile_residual"), signal.SIGTERM),
        ((Adam, "epoch"), signal.SIGINT),
    ],
    ids=["data", "compiler", "epoch"],
)
def test_interrupted_with_nothing(run, tmp_path, body, monkeypatch, place, number):
    monkeypatch.setattr(*place, lambda *_, **__: signal.raise_signal(number))
    result = run(main, body, *ADAM, "-o", "a.safetensors")
    assert result.exit_code == 130
    assert "interrupted" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("earlier", [False, True], ids=["first", "second"])
def test_interrupted_while_the_model_is_written(run, body, monkeypatch, earlier):
    """It is written all the same."""
    write = Path.write_bytes

    def interrupted(path, data):
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.001)
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    if earlier:
        interrupted_at(monkeypatch, 3)
    result = run(main, body, *ADAM, "-o", "a.safetensors")
    assert load("a.safetensors").metadata["training"]
    assert "Traceback" not in result.output
    if earlier:  # it asks for no more than the first
        assert result.exit_code == 0
        assert "interrupted; the best model so far is kept, --start goes on" in result.output
    else:
        assert result.exit_code == 130
        assert "interrupted" in result.output


def full(monkeypatch, folder):
    """Let a disk be full."""
    write = Path.write_bytes

    def refused(path, data):
        if path.parent.resolve() == folder.resolve():
            write(path, data[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", refused)


def test_a_full_disk_loses_nothing(run, tmp_path, body, monkeypatch):
    """The model goes to a folder of the system's for temporary files."""
    for name in ("full", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    full(monkeypatch, tmp_path / "full")
    result = run(main, body, *ADAM, "-o", "full/a.safetensors")
    assert refused(result, "the disk is full; make room, or choose another disk; the trained model")
    (kept,) = (tmp_path / "temporary").rglob("a.safetensors")
    assert load(kept).metadata["training"]
    assert list((tmp_path / "full").iterdir()) == []


def test_a_folder_that_is_gone_loses_nothing(run, tmp_path, body, monkeypatch):
    (tmp_path / "gone").mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    original = Adam.epoch

    def epoch(self, progress):
        shutil.rmtree(tmp_path / "gone", ignore_errors=True)
        return original(self, progress)

    monkeypatch.setattr(Adam, "epoch", epoch)
    result = run(main, body, *ADAM, "-o", "gone/a.safetensors")
    assert refused(result, "the folder gone does not exist; the trained model is kept in")
    (kept,) = (tmp_path / "temporary").rglob("a.safetensors")
    assert load(kept).metadata["training"]


def test_one_training_at_a_time_for_an_output(run, tmp_path, body):
    with locked(tmp_path / "a.safetensors"):
        refusal = run(main, body, *ADAM, "-o", "a.safetensors")
    assert refused(refusal, "another process is at work on a.safetensors")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".a.safetensors.lock").touch()  # left by one that was killed
    assert run(main, body, *ADAM, "-o", "a.safetensors").exit_code == 0
    assert [file.name for file in tmp_path.iterdir()] == ["a.safetensors"]


@pytest.mark.thorough
def test_a_signal_keeps_the_best_model(body, tmp_path):
    options = ["--width", "4", "--seconds", "100", "-o", "a.safetensors"]
    process = subprocess.Popen(
        [sys.executable, "-c", ENDS_ITSELF, str(body), *options],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    output = process.communicate(timeout=300)[0]
    assert process.returncode == 0, output
    assert "interrupted; the best model so far is kept" in output
    assert load(tmp_path / "a.safetensors").name == "vpff"


ENDS_ITSELF = """
import os, signal
from vpintegrator.training import History
add = History.add
def stop(self, *values):
    better = add(self, *values)
    if self.epochs == 3:
        os.kill(os.getpid(), signal.SIGTERM)
    return better
History.add = stop
from vpintegrator.cli.train import main
main()
"""


@pytest.mark.thorough
def test_functions_and_sizes_are_found(done, body):
    output = done(main, body, "--model", "vpff", "--epochs", "150", "--target", "1e-8", "-v")
    assert "couplings: polynomials of degree 4, depth 2, 18 parameters: " in output
    model = load("body-vpff.safetensors")
    assert model.arguments["functions"] == "polynomial"
    assert json.loads(model.metadata["search"])
    assert json.loads(model.metadata["training"])["best_validation_error"] <= 1e-8


class Undefined(torch.nn.Module):
    """What a layer with a mistake in it gives."""

    volume_preserving = True

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, z):
        return self.layer(z) * math.nan

    inverse = forward


@pytest.mark.thorough
def test_a_model_that_learned_nothing_is_no_success(run, tmp_path, body, monkeypatch):
    initialise = vp.models.Model.__init__

    def undefined(self, core, *arguments, **options):
        layers = Composition(Undefined(torch.nn.Identity()), *core)
        initialise(self, layers, *arguments, **options)

    monkeypatch.setattr(vp.models.Model, "__init__", undefined)
    options = ["--depth", "1", "--epochs", "3", "--set", "functions=neurons"]
    result = run(main, body, "--model", "vpff", *options)
    assert refused(result, "no validation error was finite")
    assert list(tmp_path.iterdir()) == []
