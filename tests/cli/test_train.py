"""vp-train: models and their arguments, files, interruptions, what is printed."""

import errno
import importlib
import json
import math
import os
import shutil
import signal
from pathlib import Path

import pytest
import torch

import vpintegrator as vp
from tests.cli.conftest import refused
from vpintegrator.cli.train import main
from vpintegrator.data import Dataset, generate
from vpintegrator.models import ARCHITECTURES, load
from vpintegrator.models.stored import arguments_of
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


# lagrangian is for positions alone
NAMES = sorted({*ARCHITECTURES} - {"lagrangian"})


@pytest.mark.parametrize("name", NAMES)
def test_every_model_trains(done, name):
    data = generate("henon-heiles", "data.h5", count=100, steps=6).path  # Hamiltonian: for all
    sizes = ["--width", "4"] if "width" in arguments_of(ARCHITECTURES[name]) else []
    sizes += ["--equations"] * (name == "split")
    output = done(main, data, "--model", name, *sizes, "--epochs", "2")
    assert "relative error one window ahead" in output and len(output.splitlines()) <= 11
    model = load(f"data-{name}.safetensors")
    assert model.name == name
    assert model.system.name == "henon-heiles"


def test_files_are_named_after_the_dataset(run, done, tmp_path, body):
    """Only the file that will be written is looked for."""
    (tmp_path / "body-vpff.safetensors").write_text("precious")
    assert "written to body.safetensors" in done(main, body, "--epochs", "1")
    refusal = run(main, body, *SMALL, "--epochs", "1")
    assert refused(refusal, "body-vpff.safetensors exists already")
    assert (tmp_path / "body-vpff.safetensors").read_text() == "precious"


def test_several_seeds(run, done, body):
    """Each is the training with its seed alone, to the last bit."""
    options = ("--model", "resnet", "--width", "4", "--epochs", "3")
    output = done(main, body, *options, "--seeds", "2", "--seed", "5", "-o", "net.safetensors")
    assert "2 seeds: median error" in output and not Path("net.safetensors").exists()
    for number in (1, 2):
        done(main, body, *options, "--seed", 4 + number, "-o", f"{number}")
        weights, alone = (
            load(name).state_dict() for name in (f"net-{number}.safetensors", f"{number}")
        )
        assert all(torch.equal(weights[name], alone[name]) for name in alone)
    result = run(main, body, *options, "--seeds", "2", "-o", "net.safetensors")
    assert refused(result, "net-1.safetensors")  # nothing is overwritten
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


def test_the_skew_weighting_without_symmetries(done, body):
    """Those of the rigid body leave no such weighting."""
    options = ("--set", "weighting=skew", "--set", "reversing_symmetries=none", "--epochs", "1")
    done(main, body, "--model", "vpt", *options, "-o", "a.safetensors")
    model = load("a.safetensors")
    assert model.weighting == "skew" and len(model.reversing_symmetries) == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--model", "vpt", "--window", "2", "--depth", "1"], {"window": 2, "depth": 1}),
        (["--model", "vpt", "--set", "time_mixing=true"], {"time_mixing": True}),
        (["--model", "vpt", "--set", "heads=1", "--depth", "1"], {"heads": 1}),
        (["--model", "transformer", "--set", "stiefel=false"], {"stiefel": False}),
        (["--model", "transformer", "--set", "attention_scale=none"], {}),
        (["--model", "vpff", "--set", "split=0,1|2"], {"split": [[0, 1], [2]]}),
        (["--model", "resnet", "--width", "6", "--set", "activation=sin"], {"activation": "sin"}),
    ],
)
def test_arguments_reach_the_model(done, body, options, expected):
    done(main, body, *options, "--epochs", "1", "-o", "a.safetensors")
    arguments = load("a.safetensors").arguments
    assert {name: arguments[name] for name in expected} == expected
    assert "attention_scale" not in arguments


def test_networks_without_structure_are_as_wide_as_the_budget_allows(done, body):
    def width(*options):
        options = [
            "--model",
            "resnet",
            "--search",
            *options,
            "-o",
            "a.safetensors",
            "-v",
            "--overwrite",
        ]
        output = done(main, body, *options)
        return load("a.safetensors").arguments["width"], output

    short, output = width("--seconds", "5", "--epochs", "1")
    assert f"width {short} was chosen: 5 s suffice" in " ".join(output.split())
    assert short < width("--seconds", "150", "--epochs", "1")[0]


@pytest.mark.parametrize("name", NAMES)
def test_an_option_at_its_default_changes_nothing(done, name):
    """What is trained depends on values, not on what is typed."""
    data = generate("henon-heiles", "data.h5", count=60, steps=6).path
    options = ("--model", name, "--epochs", "2", *["--equations"] * (name == "split"), "-o")
    done(main, data, *options, "plain.safetensors")
    plain = load("plain.safetensors")
    declared = arguments_of(ARCHITECTURES[name])
    flags = [key for key in ("window", "depth", "width", "heads", "activation") if key in declared]
    flags = [key for key in flags if declared[key].default is not None]
    for key in flags:
        is_set = key in ("heads", "activation")
        value = declared[key].default
        typed = ("--set", f"{key}={value}") if is_set else ("--" + key, value)
        done(main, data, *typed, *options, "typed.safetensors", "--overwrite")
        other = load("typed.safetensors").state_dict()
        assert all(torch.equal(other[k], own) for k, own in plain.state_dict().items())


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
    assert load("b.safetensors").record.start == "a.safetensors"
    first, second = (load(f"{name}.safetensors").record.history for name in "ab")
    assert second.best_validation_error <= first.best_validation_error


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


def test_interrupted_while_the_model_is_written(run, body, monkeypatch):
    """It is written all the same, and further signals ask for no more than the first."""
    write = Path.write_bytes

    def interrupted(path, data):
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    interrupted_at(monkeypatch, 3)
    result = run(main, body, *ADAM, "-o", "a.safetensors")
    assert load("a.safetensors").record.history
    assert result.exit_code == 0 and "Traceback" not in result.output
    assert "interrupted; the best model so far is kept, --start goes on" in result.output


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        (False, "the disk is full; make room, or choose another disk; the trained model"),
        (True, "the folder own does not exist; the trained model is kept in"),
    ],
)
def test_a_disk_that_fails_loses_nothing(run, tmp_path, body, monkeypatch, gone, message):
    """The model goes to a folder of the system's for temporary files."""
    own, temporary = tmp_path / "own", tmp_path / "temporary"
    own.mkdir()
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    write, epoch = Path.write_bytes, Adam.epoch

    def refuse(path, data):
        if path.parent.resolve() == own.resolve():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, data)

    def remove(self, progress):
        shutil.rmtree(own, ignore_errors=True)
        return epoch(self, progress)

    monkeypatch.setattr(*((Adam, "epoch", remove) if gone else (Path, "write_bytes", refuse)))
    assert refused(run(main, body, *ADAM, "-o", "own/a.safetensors"), message)
    (kept,) = temporary.rglob("a.safetensors")
    assert load(kept).record.history
    assert gone or list(own.iterdir()) == []


def test_one_training_at_a_time_for_an_output(run, tmp_path, body):
    with locked(tmp_path / "a.safetensors"):
        refusal = run(main, body, *ADAM, "-o", "a.safetensors")
    assert refused(refusal, "another process is at work on a.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_learned_nothing_is_no_success(run, tmp_path, body, monkeypatch):
    forward = vp.models.Model.forward
    monkeypatch.setattr(vp.models.Model, "forward", lambda *inputs: forward(*inputs) * math.nan)
    assert refused(run(main, body, *ADAM), "no validation error was finite")
    assert list(tmp_path.iterdir()) == []


def test_reversing_symmetries_can_be_left_out(run, done, body):
    """As ``reversible=False`` in Python, also in a search."""
    options = ("--set", "reversing_symmetries=none", "--epochs", "2", "--overwrite")
    sizes = (("--width", "4"), ("--search", "--set", "degree=2", "--depth", "1"))
    for own in sizes:
        done(main, body, "--model", "vpff", *own, "--epochs", "2", "--overwrite", "-o", "a")
        done(main, body, "--model", "vpff", *own, *options, "-o", "b")
        assert load("a").structure.reversing_symmetries
        assert not load("b").structure.reversing_symmetries
    others = ("--set", "reversing_symmetries=3")
    result = run(main, body, "--model", "vpff", *others, "-o", "c")
    assert refused(result, "they are those of the system, or none")
    result = run(main, body, "--model", "resnet", *options[:2], "-o", "c")
    assert refused(result, "reversing_symmetries")


def test_invariants_are_kept_where_a_model_has_one_new_state(run, done, body):
    named = ("--model", "polynomial", "--set", "degree=4", "--invariants")
    assert "keeps 2 invariants found in the data" in done(main, body, *named)
    model = load("body-polynomial.safetensors")
    assert "keeps 2 invariants" in model.remark
    assert 0 < model.record.history.test_error < 1e-3
    assert "add --set prediction_window=1" in done(
        main, body, "--model", "transformer", "--epochs", "2", "--invariants"
    )
    output = done(main, body, *SMALL, "--epochs", "2", "--invariants")
    assert "no invariants are kept: the model keeps a structure" in output
    assert refused(run(main, body, "--invariants"), "--invariants has no effect")
    cheapest = run(main, body, *named, "--prefer", "cost", "--target", "1e-3")
    assert refused(cheapest, "leave out --invariants")
    study = ("--study", "width=2,4", "--invariants")
    assert refused(run(main, body, "--model", "vpff", *study), "has no part in a study")
