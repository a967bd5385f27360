"""vp-rollout and vp-plot, and the whole road of four commands."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

import vpintegrator as vp
from tests.cli.conftest import refused
from vpintegrator.cli.gen import main as gen
from vpintegrator.cli.plot import main as plot
from vpintegrator.cli.rollout import main
from vpintegrator.cli.train import main as train
from vpintegrator.rollout import METHODS, open_rollout

DUFFING = """
title = "Duffing oscillator"
state = ["q", "p"]
hamiltonian = "p**2/2 - q**2/2 + b*q**4/4"
[parameters]
b = 1
[[reversing_symmetry]]
p = "-p"
[initial_conditions]
distribution = "uniform"
low = 0.3
high = 0.9
[defaults]
step = 0.2
steps = 8
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A rigid-body model, hardly trained."""
    from click.testing import CliRunner

    folder = tmp_path_factory.mktemp("model")
    data, path = folder / "body.h5", folder / "net.safetensors"
    runner = CliRunner()
    assert runner.invoke(gen, ["rigid-body", "--count", "60", "-o", str(data)]).exit_code == 0
    arguments = [str(data), "--width", "4", "--epochs", "2", "-o", str(path)]
    assert runner.invoke(train, arguments).exit_code == 0
    return path


@pytest.mark.thorough
def test_a_system_of_ones_own_goes_all_the_way(run, tmp_path):
    """From a TOML file outside the package to figures, without touching the code."""
    (tmp_path / "duffing.toml").write_text(DUFFING)
    assert run(gen, "duffing.toml", "--count", "60").exit_code == 0
    result = run(train, "duffing.h5", "--model", "vpff", "--width", "6", "--epochs", "60")
    assert result.exit_code == 0, result.output
    result = run(main, "duffing-vpff.safetensors", "--against", "stoermer-verlet", "--time", "10")
    assert result.exit_code == 0, result.output
    assert "Duffing oscillator: 8 orbits to t = 10" in result.output
    result = run(plot, "duffing-rollout.h5", "-o", "figures")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "figures" / "overview.png").stat().st_size > 10_000
    report = open_rollout("duffing-rollout.h5")
    assert report.summary("duffing-vpff").volume["step"] < 1e-12
    assert report.summary("duffing-vpff").error < 0.1


def test_the_table(run, model):
    result = run(main, model, "--steps", "20", "--trajectories", "3", "-o", "a.h5")
    assert result.exit_code == 0, result.output
    for text in ("net", "Implicit midpoint", "RK4", "RMSE", "energy", "per step"):
        assert text in result.output


def test_models_of_one_name(run, model, tmp_path):
    for name in ("net-0.safetensors", "net-1.safetensors"):
        shutil.copy(model, tmp_path / name)
    options = ["--against", "implicit-midpoint", "--steps", "10", "-o", "a.h5"]
    result = run(main, "NET=net-*.safetensors", "RK4", model, *options)
    assert result.exit_code == 0, result.output
    assert "NET (2 seeds)" in result.output
    report = open_rollout("a.h5")
    assert list(report.runs) == ["NET", "net", "rk4", "implicit-midpoint"]
    assert report.summary("NET").error == report.summary("net").error
    refused(run(main, "NET=other-*.safetensors", "RK4"), "there is no file other-*.safetensors")
    refused(run(main, "RK5", "--system", "pendulum"), "there is no file RK5")


def test_initial_states(run, model):
    states = ["--initial", "0,0.6,0.8", "--initial", "1,0,0"]
    result = run(main, model, *states, "--against", "none", "--steps", "10", "-o", "a.h5")
    assert result.exit_code == 0, result.output
    report = open_rollout("a.h5")
    np.testing.assert_array_equal(report.reference[:, 0], [[0, 0.6, 0.8], [1, 0, 0]])
    assert list(report.runs) == ["net"]


def test_initial_states_from_a_dataset(run, model):
    run(gen, "rigid-body", "--count", "40", "-o", "b.h5")
    result = run(main, model, "--dataset", "b.h5", "--trajectories", "4", "--steps", "5")
    assert result.exit_code == 0, result.output
    from vpintegrator.data import open_dataset

    initial = open_dataset("b.h5").states("test")[:4, 0]
    np.testing.assert_array_equal(open_rollout("rigid-body-rollout.h5").reference[:, 0], initial)


def test_classical_methods_alone(run):
    options = ["--system", "pendulum", "-p", "g=4", "--step", "0.05", "--steps", "40"]
    result = run(main, *options, "--against", "stoermer-verlet,heun")
    assert result.exit_code == 0, result.output
    report = open_rollout("pendulum-rollout.h5")
    assert list(report.runs) == ["stoermer-verlet", "heun"]
    assert report.system.parameters["g"] == 4


def test_classical_methods_need_no_pytorch(tmp_path):
    code = """
import sys
from vpintegrator.cli.rollout import main
main(["--system", "pendulum", "--steps", "5"], standalone_mode=False)
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_models_without_metadata(run, model):
    """As they come from other programs, or from training in one's own code."""

    bare = vp.load(model)
    bare.metadata = {}
    vp.save(bare, "bare.safetensors")
    given = ["--system", "rigid-body", "-p", "I1=3", "--step", "0.1", "--steps", "5"]
    result = run(main, "bare.safetensors", *given, "--against", "none")
    assert result.exit_code == 0, result.output
    report = open_rollout("rigid-body-rollout.h5")
    assert (report.step, report.system.parameters["I1"]) == (0.1, 3)
    assert refused(run(main, "bare.safetensors"), "does not say which system")
    # what a model holds may be said once more, and then goes for the others too
    again = ["--system", "rigid-body", "--step", "0.2", "--steps", "5", "-o", "b.h5"]
    result = run(main, model, "bare.safetensors", *again)
    assert result.exit_code == 0, result.output
    assert list(open_rollout("b.h5").runs)[:2] == [model.stem, "bare"]


def test_list_methods(run):
    result = run(main, "--list-methods")
    assert result.exit_code == 0
    for name in METHODS:
        assert name in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--against", "rk5"], "no classical method 'rk5'"),
        (["--against", "stoermer-verlet"], "Hamiltonian"),
        (["--time", "1", "--steps", "5"], "not both"),
        (["--initial", "1,2"], "initial states of rigid-body have shape (trajectory, 3)"),
        (["--initial", "1,0,0", "--trajectories", "4"], "by one of"),
        (["--system", "pendulum"], "was trained on rigid-body and holds it"),
        (["--system", "rigid-body", "--step", "0.1"], "trained for the step 0.2"),
        (["-p", "I1=3"], "these models are no families, and have the parameters"),
    ],
)
def test_mistakes(run, tmp_path, model, arguments, message):
    short = [] if "--time" in arguments[0] and len(arguments) == 2 else ["--steps", "5"]
    assert refused(run(main, model, *short, *arguments), message)
    assert list(tmp_path.iterdir()) == []


def test_more_mistakes(run, tmp_path, model):
    assert refused(run(main), "name a trained model, or a system")
    run(gen, "pendulum", "--count", "20")
    refusal = run(main, model, "--dataset", "pendulum.h5")
    assert refused(refusal, "net is for states of 3 components, but pendulum.h5 holds states of 2")
    (tmp_path / "x.safetensors").write_text("not a model")
    assert refused(run(main, "x.safetensors"), "x.safetensors")
    assert refused(run(main, "pendulum.h5"), "pendulum.h5")
    assert refused(run(plot, "pendulum.h5"), "pendulum.h5 is a dataset, not a rollout")
    (tmp_path / "a.h5").write_text("precious")
    assert refused(run(main, model, "-o", "a.h5"), "--overwrite")
    assert (tmp_path / "a.h5").read_text() == "precious"


@pytest.mark.thorough
def test_plot_keeps_existing_figures(run, model, tmp_path):
    run(main, model, "--steps", "5", "-o", "a.h5")
    assert run(plot, "a.h5", "-o", "f", "--format", "png").exit_code == 0
    assert not list((tmp_path / "f").glob("*.pdf"))
    assert refused(run(plot, "a.h5", "-o", "f", "--format", "png"), "--overwrite")
    assert run(plot, "a.h5", "-o", "f", "--format", "png", "--overwrite").exit_code == 0


def test_what_a_long_rollout_is_asked(run, model):
    options = ["--every", "10", "--reference-time", "4", "--threshold", "0.01"]
    options += ["--tangent-steps", "5", "--section", "z[2]=0"]
    result = run(main, model, "--steps", "60", *options, "-o", "a.h5")
    assert refused(result, "z[2]")  # the components are z1, z2, z3
    options[-1] = "-z3=0"
    result = run(main, model, "--steps", "60", *options, "-o", "a.h5")
    assert result.exit_code == 0, result.output
    assert "one state in 10 is kept" in result.output
    assert "up to t = 4" in result.output
    report = open_rollout("a.h5")
    assert len(report.times) == 7
    assert report.reference.shape[1] == 3
    assert report.threshold == 0.01
    assert report.section_plane is not None
    assert report.run("rk4").volume["phase-space"].times[-1] == pytest.approx(5 * report.step)


@pytest.mark.thorough
def test_against_all(run):
    options = ["--system", "harmonic-oscillator", "--steps", "20", "--trajectories", "2"]
    result = run(main, *options, "--against", "all", "-o", "a.h5")
    assert result.exit_code == 0, result.output
    report = open_rollout("a.h5")
    assert {"rk4", "stoermer-verlet", "gauss-legendre-6", "yoshida-8", "radau"} <= set(report.runs)
    assert "boris" not in report.runs
    assert "boris" in result.output  # which is told why


def test_methods_that_apply(run):
    result = run(main, "--list-methods", "--system", "rigid-body")
    assert result.exit_code == 0, result.output
    assert "Strang" in result.output
    assert "positions and as many" in result.output  # why Boris does not


@pytest.mark.thorough
def test_work_precision(run):
    options = ["--system", "pendulum", "--steps", "20", "--trajectories", "2", "--work-precision"]
    result = run(main, *options, "--against", "rk4", "-o", "a.h5")
    assert result.exit_code == 0, result.output
    assert open_rollout("a.h5").work_precision["rk4"].order == pytest.approx(4, abs=0.3)
    assert run(plot, "a.h5", "-o", "f", "--format", "png").exit_code == 0
    assert Path("f", "work-precision.png").exists()


PENDULUM = ["--system", "pendulum", "--against", "rk4", "--steps", "40", "--trajectories", "2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--time", "1e15"], "steps of 0.2 would take too long"),
        (["--steps", "1" + "0" * 12, "--every", "1"], "keep fewer (--every)"),
        (["--steps", "1" + "0" * 12, "--tangent-steps", "1" + "0" * 12], "(--tangent-steps)"),
        (["--steps", "5", "--trajectories", "1" + "0" * 15], "take fewer trajectories"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_allocated(run, tmp_path, arguments, message):
    assert refused(run(main, "--system", "pendulum", *arguments), message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../escaped/name", "", "\x00"])
def test_the_name_of_a_system_in_a_model_is_no_path(run, model, tmp_path, name):

    inner = tmp_path / "inner"
    inner.mkdir()
    changed = vp.load(model)
    changed.metadata["system_name"] = name
    vp.save(changed, inner / "a.safetensors")
    with pytest.MonkeyPatch.context() as context:
        context.chdir(inner)
        result = run(main, "a.safetensors", "--steps", "5", "--against", "none")
    assert result.exit_code == 0, result.output
    assert [path.name for path in tmp_path.iterdir()] == ["inner"]
    (written,) = inner.glob("*.h5")
    assert written.name.endswith("-rollout.h5")


@pytest.mark.parametrize("recorded", ["pipe", "/dev/zero", "//host/share/x.h5", "x" * 5000, "."])
def test_a_dataset_that_a_model_names_is_a_file_of_this_machine(run, model, recorded):

    os.mkfifo("pipe")
    changed = vp.load(model)
    changed.metadata["dataset"] = recorded
    vp.save(changed, "a.safetensors")
    result = run(main, "a.safetensors", "--reference", "dataset", "--steps", "5")
    assert refused(result, "is not found at")


def test_what_a_model_was_trained_on_is_told_when_it_is_read(run, model):
    result = run(main, model, "--reference", "dataset", "--against", "none", "--steps", "3")
    assert result.exit_code == 0, result.output
    assert f"compared with {model.parent / 'body.h5'}, which net was trained on" in result.output


@pytest.mark.parametrize(
    ("key", "value"),
    [("step", "abc"), ("step", "-1"), ("step", "nan"), ("parameters", "["), ("parameters", "[1]")],
)
def test_models_with_damaged_metadata(run, model, key, value):

    changed = vp.load(model)
    changed.metadata[key] = value
    vp.save(changed, "a.safetensors")
    result = run(main, "a.safetensors", "--steps", "5")
    assert refused(result, "parameters" if key == "parameters" else "must be a positive number")


@pytest.mark.thorough
def test_looks(run, model):
    run(main, model, "--steps", "5", "-o", "a.h5")
    options = ["--style", "dark_background", "--width", "column", "--format", "png"]
    assert run(plot, "a.h5", "-o", "dark", *options).exit_code == 0
    assert matplotlib.image.imread("dark/errors.png")[0, 0, :3].max() < 0.3
    chosen = ["--figure", "errors", "--methods", "rk4", "--format", "svg"]
    result = run(plot, "a.h5", "-o", "one", *chosen, "--json")
    assert [row["method"] for row in json.loads(result.stdout)["table"]] == ["RK4"]
    assert {path.name for path in Path("one").iterdir()} == {"errors.svg", "captions.md"}
    assert refused(run(plot, "a.h5", "--figure", "energy"), "'energy' is none of")
    refusal = run(plot, "a.h5", "-o", "wide", "--width", "everything")
    assert refused(refusal, "neither column nor page, nor a number of inches")
    assert not Path("wide").exists()


@pytest.mark.thorough
def test_columns_are_chosen_for_the_terminal_and_for_every_file(run, tmp_path):
    options = ["--system", "pendulum", "--against", "rk4", "--step", "0.1", "--steps", "9"]
    result = run(main, *options, "--columns", "median rmse,order", "-o", "r.h5")
    table = result.output.partition("Median and worst")[0]
    assert "order" in table and "RMSE" in table and "volume" not in table.lower()
    assert run(plot, "r.h5", "--format", "png", "--columns", "order,energy-drift").exit_code == 0
    for name, wanted in (
        ("table.csv", "method,order,energy drift"),
        ("table.md", "| method | order | energy drift |"),
        ("table.tex", "{lrr}"),
    ):
        assert wanted in (tmp_path / "figures" / name).read_text()
    assert refused(run(plot, "r.h5", "-o", "f", "--columns", "oder"), "did you mean 'order'")
    assert refused(run(plot, "r.h5", "-o", "f", "--orbits", "9"), "numbers from 1 to 8")
    assert refused(run(plot, "r.h5", "-o", "f", "--orbits", "1.5"), "--orbits 1.5")
    assert not (tmp_path / "f").exists()
    result = run(main, *options, "--columns", "oder", "-o", "s.h5")
    assert result.exit_code == 0 and "no column 'oder'; did you mean 'order'" in result.output
    assert "volume" in result.output and (tmp_path / "s.h5").exists()
