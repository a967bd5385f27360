"""vp-train."""

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
from vpintegrator.training import History
from vpintegrator.training.optimizers import Adam

# the name vpintegrator.training.train is that of the function
TRAIN = importlib.import_module("vpintegrator.training.train")


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "body.h5"
    return generate("rigid-body", path, count=100, steps=6).path


@pytest.mark.parametrize("name", sorted({*ARCHITECTURES} - {"classical"}))
def test_every_model_trains(run, name):
    data = generate("henon-heiles", "data.h5", count=100, steps=6).path  # Hamiltonian: for all
    sizes = ["--width", "4"] if "width" in arguments_of(ARCHITECTURES[name]) else []
    result = run(main, data, "--model", name, *sizes, "--epochs", "2", "-o", "a.safetensors")
    assert result.exit_code == 0, result.output
    assert "relative error one window ahead" in result.output
    model = load("a.safetensors")
    assert model.name == name
    assert model.metadata["system_name"] == "henon-heiles"


def test_a_classical_method_is_not_trained(run, body):
    result = run(main, body, "--model", "classical", "-o", "a.safetensors")
    assert refused(result, "classical has no parameters to train")


def test_several_seeds(run, body):
    """Each is the training with its seed alone, to the last bit."""
    options = ("--model", "resnet", "--width", "4", "--epochs", "3", "--no-verdict")
    result = run(main, body, *options, "--seeds", "2", "--seed", "5", "-o", "net.safetensors")
    assert result.exit_code == 0, result.output
    assert "2 seeds: median error" in result.output and not Path("net.safetensors").exists()
    for number in range(2):
        assert run(main, body, *options, "--seed", 5 + number, "-o", f"{number}").exit_code == 0
        weights, alone = (
            load(name).state_dict() for name in (f"net-{number}.safetensors", f"{number}")
        )
        assert all(torch.equal(weights[name], alone[name]) for name in alone)
    result = run(main, body, *options, "--seeds", "2", "-o", "net.safetensors")
    assert refused(result, "net-0.safetensors")  # nothing is overwritten
    result = run(main, body, *options, "--seeds", "2", "-o", "other.safetensors", "--json")
    models = json.loads(result.stdout)["models"]
    assert [each["history"]["seed"] for each in models] == [0, 1]


@pytest.mark.filterwarnings("ignore:.* is not to be relied on")
def test_the_published_recipe_is_that_of_python(run, body):
    options = ("--recipe", "published", "--epochs", "2", "--seed", "3", "--no-verdict")
    result = run(main, body, "--model", "vpt", *options, "-o", "a.safetensors")
    assert result.exit_code == 0, result.output
    torch.manual_seed(3)
    model = ARCHITECTURES["vpt"].published(3)
    history = vp.train(model, body, recipe="published", epochs=2, seed=3, progress=False)
    again = load("a.safetensors")
    assert f"validation {history.best_validation_error:.2e}" in result.output
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, again.state_dict()[name])
    for wrong in (["--model", "spff"], [], ["--model", "vpt", "--depth", "2"]):
        assert refused(run(main, body, *wrong, *options), "--recipe")


def test_why_training_is_not_compiled(run, body):
    """One line, and none where the user chose PyTorch."""
    options = ("--model", "resnet", "--epochs", "2", "--no-verdict", "-o", "a.safetensors")
    for more, count in (((), 1), (("--compiled", "no", "--overwrite"), 0)):
        result = run(main, body, *options, *more)
        assert result.output.count("not compiled: the training takes about") == count


def test_the_help_describes_every_model(run):
    described = ARCHITECTURES.descriptions()
    assert [*described] == [*ARCHITECTURES] and all(described.values())
    output = run(main, "--help").output
    for name in ARCHITECTURES:
        assert f"  {name} " in output


@pytest.mark.parametrize(
    ("system", "options", "expected"),
    [
        ("duffing", [], "spff"),
        ("duffing", ["--window", "2"], "spt"),
        ("lotka-volterra-2d", [], "spff"),
        ("lotka-volterra-2d", ["--no-chart"], "resnet"),
    ],
)
def test_auto_takes_what_suits_the_flow(run, system, options, expected):
    generate(system, "a.h5", count=20, steps=4)
    options = [*options, "--width", "2", "--optimizer", "adam"]
    result = run(main, "a.h5", *options, "--epochs", "1", "-o", "a.safetensors", "-v")
    assert result.exit_code == 0, result.output
    model = load("a.safetensors")
    assert (model.name, model.prediction_window) == (expected, 1)
    assert (f"  {expected} was chosen: " in result.output) == ("--model" not in options)
    warned = "a model without structure fits better" in result.output
    assert warned == (system == "lotka-volterra-2d" and model.structure.keeps_volume)


def test_options_reach_the_model(run, body):
    options = ["--window", "2", "--prediction-window", "1", "--depth", "1", "--no-reversible"]
    result = run(main, body, *options, "--option", "time_mixing=true", "--epochs", "1")
    assert result.exit_code == 0, result.output
    model = load("rigid-body-vpt.safetensors")
    assert (model.window, model.prediction_window, model.arguments["depth"]) == (2, 1, 1)
    assert model.arguments["time_mixing"]
    assert len(model.reversing_symmetries) == 0


def test_polynomials_know_the_angles_of_the_system(run, tmp_path):
    data = generate("pendulum", tmp_path / "a.h5", count=10, steps=4).path
    common = (data, "--epochs", "1", "--model", "vpff", "--overwrite")
    result = run(main, *common, "--functions", "polynomial", "--degree", "2", "-o", "a.safetensors")
    assert result.exit_code == 0, result.output
    assert load("a.safetensors").coordinates.periods == {0: 2 * math.pi}
    run(main, *common, "--functions", "neurons", "-o", "a.safetensors")
    assert load("a.safetensors").coordinates.periods == {}
    refused(run(main, *common, "--option", "periodic=1"), "angles are those that the system")


def test_polynomials_take_the_functions_of_the_system(run, tmp_path, body):
    data = generate("coupled-oscillators", tmp_path / "a.h5", count=10, steps=4).path
    options = ("--model", "vpff", "--functions", "system", "--degree", "2", "--epochs", "1")
    result = run(main, data, *options, "-o", "a.safetensors")
    assert result.exit_code == 0, result.output
    assert load("a.safetensors").arguments["expressions"] == ["sigmoid(z[0])"]
    refused(run(main, body, *options), "the vector field of rigid-body is not known, or made of")


@pytest.mark.parametrize(
    ("option", "argument", "value"),
    [
        ("stiefel=false", "stiefel", False),
        ("attention_scale=none", "attention_scale", None),
    ],
)
def test_options_have_the_types_of_the_architecture(run, body, option, argument, value):
    options = ["--model", "transformer", "--option", option, "--epochs", "1", "-o", "a.safetensors"]
    result = run(main, body, *options)
    assert result.exit_code == 0, result.output
    stored = load("a.safetensors").arguments.get(argument)
    assert (stored, type(stored)) == (value, type(value))


def test_networks_without_structure_are_as_wide_as_the_budget_allows(run, body):

    def trained(*options):
        options = ["--model", "resnet", *options, "-o", "a.safetensors", "--compiled", "no", "-v"]
        result = run(main, body, *options)
        assert result.exit_code == 0, result.output
        return load("a.safetensors").arguments["width"], result.output

    one, two = ("--epochs", "1", "--overwrite"), ("--epochs", "2", "--overwrite")
    short, output = trained("--seconds", "5", *one)
    assert f"width {short} was chosen: 5 s suffice" in " ".join(output.split())
    long, output = trained("--seconds", "500", *one)
    assert short < long
    chosen, _ = trained(*one)
    assert short < chosen < long
    assert trained("--width", "6", *two)[0] == 6


def test_blocks_of_a_split_are_an_option(run, body):
    options = ["--model", "vpff", "--option", "split=0,1|2", "--epochs", "1", "-o", "a.safetensors"]
    result = run(main, body, *options)
    assert result.exit_code == 0, result.output
    assert load("a.safetensors").arguments["split"] == [[0, 1], [2]]


@pytest.mark.parametrize(
    ("options", "weighting", "symmetries", "message"),
    [
        ([], "coupled", 3, "the coupled weighting was chosen"),
        (["--weighting", "skew"], "skew", 2, "2 of the system's 3 reversing symmetries"),
        (["--weighting", "arbitrary"], "arbitrary", 0, "none of the system's 3"),
    ],
)
def test_what_is_chosen_is_said(run, body, options, weighting, symmetries, message):
    options = ["--model", "vpt", *options, "--depth", "1", "--epochs", "1", "-v"]
    result = run(main, body, *options, "-o", "a.safetensors")
    assert result.exit_code == 0, result.output
    assert message in result.output
    model = load("a.safetensors")
    assert model.weighting == weighting
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
        (["--option", "dtype=float32"], "give --dtype"),
        (["--option", "attention_scale=abc"], "attention_scale must be a number or none"),
        (["--option", "depht=2"], "vpff has no option 'depht'; did you mean 'depth'?"),
        (["--option", "depth=2", "--depth", "3"], "depth is given twice"),
        (["--option", "split=0|1"], "each of the component indices 0 ... 2 once"),
        (["--weighting", "arbitrary", "--reversible"], "or leave out --reversible"),
        (["--width", str(10**13)], "does not fit into memory"),
        (["--window", "9"], "need trajectories of 10 states"),
        (["-o", "no/such/folder.safetensors"], "the folder no/such does not exist"),
        (["--start", "missing.safetensors"], "missing.safetensors"),
    ],
)
def test_mistakes(run, tmp_path, body, arguments, message):
    assert refused(run(main, body, "--epochs", "1", *arguments), message)
    assert list(tmp_path.iterdir()) == []


def test_learning_by_heart_is_told(run, body, monkeypatch):
    arguments = [main, body, "--model", "vpff", "--width", "4", "--epochs", "1", "--overwrite"]
    assert "--noise" not in run(*arguments).output
    monkeypatch.setattr(History, "overfitted", True)
    assert "others worse after epoch 1: give more trajectories, --noise" in run(*arguments).output


def test_dimensions_must_agree(run, body):
    generate("pendulum", "pendulum.h5", count=20)
    run(main, body, "--model", "vpff", "--width", "4", "--epochs", "1", "-o", "a.safetensors")
    refusal = run(main, "pendulum.h5", "--start", "a.safetensors", "-o", "b.safetensors")
    assert refused(refusal, "for states of 3 components, but pendulum.h5 holds states of 2")


def test_not_a_dataset(run, tmp_path):
    (tmp_path / "a.h5").write_text("hello")
    assert refused(run(main, "a.h5"), "a.h5 is not an HDF5 file")


SMALL = ("--model", "vpff", "--width", "2", "--depth", "1")
ADAM = (*SMALL, "--optimizer", "adam", "--batch", "40", "--epochs", "4")


def interrupted_at(monkeypatch, epoch):
    """Let Ctrl-C come within some epoch."""
    original, calls = Adam.epoch, []

    def run(self, progress):
        calls.append(progress)
        if len(calls) == epoch:
            signal.raise_signal(signal.SIGINT)
        return original(self, progress)

    monkeypatch.setattr(Adam, "epoch", run)


def test_what_is_started_from_decides_on_model_and_name(run, tmp_path, body):
    run(main, body, *ADAM, "-o", "a.safetensors")
    result = run(main, body, "--start", "a.safetensors", "--epochs", "2")
    assert result.exit_code == 0, result.output
    assert "written to rigid-body-vpff.safetensors" in result.output
    started = load("rigid-body-vpff.safetensors")
    assert started.metadata["start"] == "a.safetensors"
    for option in (
        ("--model", "vpff"),
        ("--dtype", "float32"),
        ("--no-reversible",),
    ):
        refusal = run(main, body, "--start", "a.safetensors", *option, "-o", "c.safetensors")
        assert refused(refusal, "leave out --")


def test_an_interrupted_training_goes_on_from_its_model(run, body, monkeypatch):
    with monkeypatch.context() as patch:
        interrupted_at(patch, 3)
        result = run(main, body, *ADAM, "-o", "a.safetensors")
    assert result.exit_code == 0, result.output
    assert "2 epochs, " in result.output
    assert "interrupted; the best model so far is kept, --start goes on from it" in result.output
    refusal = run(main, body, *ADAM, "-o", "a.safetensors")
    assert refused(refusal, "a.safetensors exists already")
    options = ("--optimizer", "adam", "--epochs", "2", "-o", "b.safetensors")
    result = run(main, body, "--start", "a.safetensors", *options)
    assert result.exit_code == 0, result.output
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
    """The model goes to the current folder."""
    (tmp_path / "full").mkdir()
    full(monkeypatch, tmp_path / "full")
    result = run(main, body, *ADAM, "-o", "full/a.safetensors")
    kept = tmp_path / "a-2.safetensors"
    assert refused(result, "the disk is full; make room, or choose another disk; the trained model")
    assert f"is kept in {kept}" in result.output.replace("\n", " ")
    assert load(kept).metadata["training"]
    assert list((tmp_path / "full").iterdir()) == []


def test_a_folder_that_is_gone_loses_nothing(run, tmp_path, body, monkeypatch):
    """Nor one that is there but full: the model goes to the system's folder for such."""
    (tmp_path / "gone").mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    full(monkeypatch, tmp_path)
    original = Adam.epoch

    def epoch(self, progress):
        shutil.rmtree(tmp_path / "gone", ignore_errors=True)
        return original(self, progress)

    monkeypatch.setattr(Adam, "epoch", epoch)
    result = run(main, body, *ADAM, "-o", "gone/a.safetensors")
    assert refused(result, "the folder gone does not exist; the trained model is kept in")
    (kept,) = (tmp_path / "temporary").rglob("a-2.safetensors")
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
from vpintegrator.training import history
add = history.History.add
def stop(self, *values):
    better = add(self, *values)
    if self.epochs == 3:
        os.kill(os.getpid(), signal.SIGTERM)
    return better
history.History.add = stop
from vpintegrator.cli.train import main
from vpintegrator.models.arguments import arguments_of
main()
"""


@pytest.mark.thorough
def test_functions_and_sizes_are_found_by_default(run, body):
    result = run(main, body, "--model", "vpff", "--epochs", "150", "--target", "1e-8", "-v")
    assert result.exit_code == 0, result.output
    assert "couplings: polynomials of degree 4, depth 2, 18 parameters: " in result.output
    model = load("rigid-body-vpff.safetensors")
    assert model.arguments["functions"] == "polynomial"
    assert json.loads(model.metadata["search"])
    assert json.loads(model.metadata["training"])["best_validation_error"] <= 1e-8


def test_a_named_initial_scheme_is_searched_with(run, body):
    few = ["--epochs", "120", "--target", "1e-7", "--compiled", "no"]
    result = run(main, body, "--initial-scheme", "blanes-moan-4", *few)
    assert result.exit_code == 0, result.output
    assert load("rigid-body-vpff.safetensors").metadata["search"]


def test_a_short_budget_takes_polynomials_only_where_they_are_few(run, tmp_path):
    data = generate("toda", tmp_path / "a.h5", count=10, steps=3).path
    result = run(main, data, "--epochs", "1", "--model", "vpff", "-o", "a.safetensors")
    assert result.exit_code == 0, result.output
    model = load("a.safetensors")
    assert model.arguments["functions"] == "polynomial"
    assert sum(p.numel() for p in model.parameters()) <= 500


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
    options = ["--depth", "1", "--epochs", "3", "--functions", "neurons"]
    result = run(main, body, "--model", "vpff", *options)
    assert refused(result, "no validation error was finite")
    assert list(tmp_path.iterdir()) == []
