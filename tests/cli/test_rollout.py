"""vp-rollout and vp-plot: what runs, from which states, and what is written."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch

import vpintegrator as vp
from tests.cli.conftest import refused
from vpintegrator.cli.plot import main as plot
from vpintegrator.cli.rollout import main
from vpintegrator.models.saving import _checksum
from vpintegrator.rollout import open_rollout


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A rigid-body model, hardly trained."""
    folder = tmp_path_factory.mktemp("model")
    data = vp.generate("rigid-body", folder / "body.h5", count=60)
    kinds = [vp.training.Network({"width": 4}, architecture="vpff")]
    vp.save(vp.fit(data, kinds, epochs=2, progress=False).model, folder / "net.safetensors")
    return folder / "net.safetensors"


def test_the_table(done, model):
    output = done(main, model, "--steps", "20", "--trajectories", "3", "-o", "a.h5")
    for text in ("net", "Implicit midpoint", "RK4", "RMSE", "energy", "per step"):
        assert text in output
    assert len(output.splitlines()) <= 8 and "Median and worst" not in output
    assert "Median and worst" in done(main, model, "--steps", "20", "-o", "b.h5", "-v")


def test_models_of_one_name(done, model, tmp_path):
    for name in ("net-1.safetensors", "net-2.safetensors"):
        shutil.copy(model, tmp_path / name)
    options = ["--against", "implicit-midpoint", "--steps", "10", "-o", "a.h5"]
    assert "NET (2 seeds)" in done(main, "NET=net-*.safetensors", "RK4", model, *options)
    report = open_rollout("a.h5")
    assert list(report.runs) == ["NET", "net", "rk4", "implicit-midpoint"]
    assert [run.name for run in report.runs["NET"].seeds] == ["NET 1", "NET 2"]
    assert report.summary("NET").error == report.summary("net").error


def test_initial_states(done, model):
    states = ["--initial", "0,0.6,0.8", "--initial", "1,0,0"]
    done(main, model, *states, "--against", "none", "--steps", "10", "-o", "a.h5")
    report = open_rollout("a.h5")
    np.testing.assert_array_equal(report.reference[:, 0], [[0, 0.6, 0.8], [1, 0, 0]])
    assert list(report.runs) == ["net"]
    data = vp.generate("rigid-body", "b.h5", count=40)
    done(main, model, "--dataset", "b.h5", "--trajectories", "4", "--steps", "5")
    first = open_rollout("rigid-body-rollout.h5").reference[:, 0]
    np.testing.assert_array_equal(first, data.states("test")[:4, 0])


def test_classical_methods_alone(done):
    options = ["--system", "pendulum", "-p", "g=4", "--step", "0.05", "--steps", "40"]
    done(main, *options, "--against", "stoermer-verlet,rk4", "--work-precision")
    report = open_rollout("pendulum-rollout.h5")
    assert list(report.runs) == ["stoermer-verlet", "rk4"]
    assert report.system.parameters["g"] == 4
    assert report.work_precision["rk4"].order == pytest.approx(4, abs=0.3)


def test_classical_methods_need_no_pytorch(tmp_path):
    code = """
import sys
from vpintegrator.cli.rollout import main
main(["--system", "pendulum", "--steps", "5"], standalone_mode=False)
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_models_without_origin(run, done, model):
    """As they come from other programs, or from training in one's own code."""
    bare = vp.load(model)
    bare.origin = vp.models.Origin()
    vp.save(bare, "bare.safetensors")
    known = ["--system", "rigid-body", "-p", "I1=3", "--step", "0.1", "--steps", "5"]
    done(main, "bare.safetensors", *known, "--against", "none")
    report = open_rollout("rigid-body-rollout.h5")
    assert (report.step, report.system.parameters["I1"]) == (0.1, 3)
    assert refused(run(main, "bare.safetensors"), "does not say which system")
    # what a model holds may be said once more, and then goes for the others too
    again = ["--system", "rigid-body", "--step", "0.2", "--steps", "5", "-o", "b.h5"]
    done(main, model, "bare.safetensors", *again)
    assert list(open_rollout("b.h5").runs)[:2] == [model.stem, "bare"]


def test_a_long_rollout(done, model):
    options = ["--reference-time", "4", "--section", "-z3=0", "-o", "a.h5"]
    output = done(main, model, "--steps", "60", *options)
    assert "errors are those up to t = 4" in output
    report = open_rollout("a.h5")
    assert report.reference.shape[1] == 21 and report.section_plane == ("z3", 0.0, -1)


@pytest.fixture
def changed(model):
    """Write the file of the model again with other entries in its origin."""

    def save(system=(), /, **entries):
        with safetensors.safe_open(model, framework="pt") as file:
            header = file.metadata()
        origin = json.loads(header["origin"]) | entries
        origin["system"] = {**origin["system"], **dict(system)}
        tensors = safetensors.torch.load_file(model)
        header["origin"] = json.dumps(origin)
        header["checksum"] = _checksum(header, tensors)
        safetensors.torch.save_file(tensors, "a.safetensors", header)

    return save


def test_the_name_of_a_system_in_a_model_is_no_path(changed, done, tmp_path):
    changed({"name": "../escaped/name"})
    done(main, "a.safetensors", "--steps", "5", "--against", "none")
    assert [path.suffix for path in sorted(tmp_path.iterdir())] == [".safetensors", ".h5"]


@pytest.mark.parametrize("recorded", ["pipe", "/dev/zero", "//host/share/x.h5", "x" * 5000, "."])
def test_a_dataset_that_a_model_names_is_a_file_of_this_machine(run, changed, recorded):
    os.mkfifo("pipe")
    changed(dataset=recorded)
    result = run(main, "a.safetensors", "--reference", "dataset", "--steps", "5")
    assert refused(result, "is not found at")


def test_what_a_model_was_trained_on_is_told_when_it_is_read(done, model):
    output = done(main, model, "--reference", "dataset", "--against", "none", "--steps", "3")
    assert f"compared with {model.parent / 'body.h5'}, which net was trained on" in output


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        *(({"step": step}, "must be positive") for step in ("abc", -1, math.nan, [1])),
        ({"dataset": 1}, "dataset must be a text"),
        ({"domain": {"components": {"z1": [1]}}}, "must have a least and a largest value"),
        ({"domain": 3}, "must have a least and a largest value"),
        ({"member": {"values": 1}}, "the family that it is of"),
        ({"text": "["}, "its system"),
        ({"parameters": [1]}, "its origin is not"),
        ({"parameters": {"I1": "x"}}, "I1"),
        ({"other": 1}, "its origin is not"),
    ],
)
def test_models_with_a_damaged_origin(run, changed, entries, message):
    if entries.keys() & {"step", "dataset", "domain", "member"}:
        changed(**entries)
    else:
        changed(entries)  # of the system
    assert refused(run(main, "a.safetensors", "--steps", "5"), message)


def test_figures(run, done, model, tmp_path):
    done(main, model, "--steps", "5", "-o", "a.h5")
    chosen = ["--figure", "errors", "--methods", "rk4", "--format", "svg", "--width", "column"]
    facts = json.loads(done(plot, "a.h5", "-o", "one", *chosen, "--json", "--quiet"))
    assert [row["method"] for row in facts["table"]] == ["RK4"]
    assert {path.name for path in Path("one").iterdir()} == {"errors.svg", "errors.md"}
    assert refused(run(plot, "a.h5", "-o", "one", *chosen), "--overwrite")
    assert "1 figure: errors" in done(plot, "a.h5", "-o", "one", *chosen, "--overwrite")
