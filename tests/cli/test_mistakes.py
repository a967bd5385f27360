"""Mistakes: exit code 2, one sentence that says what to do, and no file is touched."""

import importlib
import shlex
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

import vpintegrator as vp
from tests.cli.conftest import refused
from vpintegrator.cli.command import COMMANDS

SECTION = "--section 'q[0] = 0' --count 9 --steps 2"
MISTAKES = {
    "vp-gen": "name a system",
    "vp-gen --from lab.csv": "has no option --from; type vp-import FILE",
    "vp-gen --list": "type vp-show systems",
    "vp-gen rigid-bdy": "did you mean 'rigid-body'",
    "vp-gen rigid-body -p I1": "NAME=VALUE",
    "vp-gen rigid-body -p I9=1": "no parameter 'I9'",
    "vp-gen rigid-body --vary I1=3": "expected NAME=LOW:HIGH",
    "vp-gen rigid-body --vary I1=1:2 -p I1=3": "leave -p I1=... out",
    "vp-gen rigid-body --vary step=1:2 --step 1": "leave --step out",
    "vp-gen pendulum --step x": "expected a time",
    "vp-gen pendulum --count 2": "2 is not in the range",
    "vp-gen pendulum --step period": "no period in time",
    f"vp-gen henon-heiles {SECTION} -p energy=0.1 --step 0.2": "one return",
    "vp-gen forced-duffing --section 'q = 0'": "is stroboscopic",
    "vp-gen pendulum -o taken.h5": "taken.h5 exists already",
    "vp-import": "Missing argument",
    "vp-import none.csv": "there is no file none.csv",
    "vp-import lab.csv --variable r": "no variable 'r' (it has: time",
    "vp-import lab.csv -o lab.csv --overwrite": "give another name",
    "vp-import bare.csv": "with --columns, as in time,q,p",
    "vp-import ring.npz --pairs before": "--pairs BEFORE,AFTER",
    "vp-import lab.csv lab.csv": "which go together row by row",
    "vp-show": "name systems, recipes",
    "vp-show pendulm": "did you mean 'pendulum'?",
    "vp-show best": "there is no file and no name 'best'; systems, recipes",
    "vp-show none.h5": "there is no file and no name 'none.h5'",
    "vp-show rk4 -o a.png": "pictures are of datasets, rollouts and models",
    "vp-show pendulum.h5 -o a.txt": "format must be one of png",
    "vp-train": "Missing argument",
    "vp-train pendulum.h5 --model vptt": "there is no model 'vptt'; did you mean 'vpt'",
    "vp-train pendulum.h5 --model vpff --set heads=2": "vpff has no argument 'heads'",
    "vp-train pendulum.h5 --model vpt --set dtype=float32": "dtype cannot be set",
    "vp-train pendulum.h5 --model vpt --set attention_scale=abc": "must be a number or none",
    "vp-train pendulum.h5 --model vpff --set depht=2": "did you mean 'depth'?",
    "vp-train pendulum.h5 --model vpt --set depth=2 --depth 3": "depth is given twice",
    "vp-train pendulum.h5 --model vpff --set degree=x": "degree must be",
    "vp-train pendulum.h5 --model vpt --set heads=2": "2 components allow at most 1",
    "vp-train pendulum.h5 --model vpt --window 99": "need trajectories of 198 states",
    "vp-train body.h5 --model vpff --set functions=system": "equations of rigid-body",
    "vp-train pendulum.h5 --recipe published": "--recipe published is for --model vpff",
    "vp-train pendulum.h5 --model vpt --recipe published --depth 2": "leave out depth",
    "vp-train pendulum.h5 --start model.safetensors --model vpt": "leave out model",
    "vp-train pendulum.h5 --start none.safetensors": "none.safetensors",
    "vp-train body.h5 --start model.safetensors": "states of 2 components, but body.h5",
    "vp-train pendulum.h5 --device foo": "foo",
    "vp-train pendulum.h5 --model split": "--equations, lets it read the equations",
    "vp-train pendulum.h5 --model transformer --equations": "has no use for equations",
    "vp-train pendulum.h5 --set depth=2": "--set has no effect on a search of all kinds",
    "vp-train pendulum.h5 --batch 64": "--batch has no effect on a search of all kinds",
    "vp-train pendulum.h5 --learning-rate 0.1": "--learning-rate has no effect on a search",
    "vp-train pendulum.h5 --search": "--search has no effect on a search of all kinds",
    "vp-train pendulum.h5 --model sgf --batch 64": "batch has no effect",
    "vp-train pendulum.h5 --model sgf --search --batch 64": "batch has no effect",
    "vp-train pendulum.h5 --model vpff --search --width 16": "leave out width",
    "vp-train pendulum.h5 --model vpff --search --optimizer adam": "trains by levenberg-marquardt",
    "vp-train pendulum.h5 --model linear --window 2": "a map of one step: window must be 1, not 2",
    "vp-train pendulum.h5 --start model.safetensors --search": "leave out search",
    "vp-rollout": "name a trained model, or a system",
    "vp-rollout none.safetensors": "none.safetensors",
    "vp-rollout NET=none-*.safetensors": "there is no file none-*.safetensors",
    "vp-rollout model.safetensors --against rk44": "no classical method 'rk44'",
    "vp-rollout model.safetensors --initial 0,x": "expected states as 0,0.6,0.8",
    "vp-rollout model.safetensors --initial 1,0 --dataset pendulum.h5": "leave out others",
    "vp-rollout model.safetensors --step 0.3": "a map has one step",
    "vp-rollout model.safetensors --device foo": "--device foo",
    "vp-rollout model.safetensors -p g=3": "these models are no families",
    "vp-rollout model.safetensors --system rigid-body": "was trained on pendulum",
    "vp-rollout --system pendulum --device cuda": "models alone run on other devices",
    "vp-rollout --system pendulum -o taken.h5": "taken.h5 exists already",
    "vp-plot": "Missing argument",
    "vp-plot rollout.h5 --figure error": "did you mean 'errors'?",
    "vp-plot rollout.h5 -o lab.csv": "cannot write lab.csv",
    "vp-export none.safetensors": "there is no file none.safetensors",
    "vp-export model.safetensors -p step=0.1": "spff is no family",
}


# with the output in the way: the mistake is told first, and without one that it is there
BESIDE = {
    "vp-train pendulum.h5 --model vpff --seconds -1": "seconds = -1.0 must be positive",
    "vp-train pendulum.h5 --prefer cost": "--prefer cost needs the largest error",
    "vp-train pendulum.h5 --model vpt --window 99": "and its prediction need trajectories of",
    "vp-train pendulum.h5 --model vpt --set heads=2": "2 components allow at most 1",
    "vp-train body.h5 --start model.safetensors": "states of 2 components, but body.h5",
    "vp-train pendulum.h5 --model vpff --search --width 16": "leave out width",
    "vp-train pendulum.h5 --model vpff --epochs 1": "exists already",
    "vp-rollout model.safetensors --against rk44": "no classical method 'rk44'",
    "vp-rollout model.safetensors --step 0.3": "a map has one step",
    "vp-rollout model.safetensors --section 'r = 0'": "no component 'r'",
    "vp-rollout --system pendulum --time 1 --steps 3": "either time or steps",
    "vp-rollout --system pendulum": "exists already",
    "vp-gen pendulum --step x": "expected a time",
    "vp-gen pendulum -p I9=1": "no parameter 'I9'",
    "vp-gen pendulum": "exists already",
    "vp-import lab.csv --variable r": "no variable 'r'",
    "vp-import lab.csv": "exists already",
    "vp-plot rollout.h5 --figure poincare": "nothing to show in the figure 'poincare'",
    "vp-plot rollout.h5 --columns energy": "columns must be one of",
    "vp-plot rollout.h5": "exists already",
    "vp-export model.safetensors -p step=0.1": "spff is no family",
    "vp-export model.safetensors": "exists already",
}


@pytest.mark.parametrize("line", BESIDE)
def test_a_mistake_is_told_before_a_file_in_the_way(line, inputs, monkeypatch, tmp_path):
    name, *arguments = shlex.split(line)
    output = tmp_path / "taken"
    output.write_text("precious")
    if name == "vp-plot":
        output = tmp_path / "figures"
        output.mkdir()
        for file in ("overview.png", "poincare.png", "table.md"):
            (output / file).write_text("precious")
    monkeypatch.chdir(inputs)
    command = importlib.import_module(f"vpintegrator.cli.{COMMANDS[name][0]}").main
    result = CliRunner().invoke(command, [*arguments, "-o", str(output)])
    assert result.exit_code == 2 and BESIDE[line] in result.output, result.output
    for path in [output] if output.is_file() else output.iterdir():
        assert path.read_text() == "precious"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Datasets, a model, a rollout, tables, and a file in the way."""
    folder = tmp_path_factory.mktemp("inputs")
    data = vp.generate("pendulum", folder / "pendulum.h5", count=10, steps=6)
    vp.generate("rigid-body", folder / "body.h5", count=10, steps=6)
    model = vp.models.build(data.system, "spff", {"functions": "polynomial", "degree": 3})
    vp.train(model, data, epochs=1, compiled=False)
    vp.save(model, folder / "model.safetensors")
    report = vp.compare(None, "rk4", system="pendulum", steps=4, trajectories=2)
    report.save(folder / "rollout.h5")
    rows = [f"{k},{0.1 * n:.1f},{k + n},{-n}" for k in range(6) for n in range(9)]
    (folder / "bare.csv").write_text("\n".join(rows))
    (folder / "lab.csv").write_text("\n".join(["trajectory,time (s),q,p", *rows]))
    pairs = np.random.default_rng(0).normal(size=(2, 20, 2))
    np.savez(folder / "ring.npz", before=pairs[0], after=pairs[1])
    (folder / "taken.h5").write_text("precious")
    return folder


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_sentence(run, inputs, tmp_path, line):
    shutil.copytree(inputs, tmp_path, dirs_exist_ok=True)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    name, *arguments = shlex.split(line)
    if name == "vp-train" and "--epochs" not in line and "--seconds" not in line:
        arguments += ["--epochs", "1"]
    command = importlib.import_module(f"vpintegrator.cli.{COMMANDS[name][0]}").main
    assert refused(run(command, *arguments), MISTAKES[line])
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
