"""A mistake in the arguments is told before a file that is missing, or that exists already."""

import pytest

import vpintegrator as vp
from tests.cli.conftest import refused
from vpintegrator.cli.export import main as export
from vpintegrator.cli.gen import main as gen
from vpintegrator.cli.rollout import main as rollout
from vpintegrator.cli.train import main as train

MAINS = {"rollout": rollout, "train": train, "export": export, "gen": gen}
# options that are wrong whatever the input is, and what is said of them
NAMES = {
    "rollout IN --against rk44": "no classical method 'rk44'",
    "rollout IN --initial 0,x": "--initial 0,x",
    "rollout IN --device foo": "--device foo",
    "rollout IN --time -1": "time = -1",
    "train IN --model foo": "no model 'foo'",
    "train IN --model vpff --option degree=x": "degree must be",
    "train IN --device foo": "--device foo",
    "train IN --seconds -1": "seconds = -1",
    "train IN --start model.safetensors --model vpt": "leave out --model",
    "export IN --name 3x": "name must be a name of C",
    "gen IN --vary g": "--vary g",
    "gen --from IN --fractions 1,2": "--fractions 1,2",
}
# options that are wrong for this input
VALUES = {
    "rollout IN --initial 0,0,0": "2",
    "rollout IN --section r=0": "r",
    "rollout IN --step 0.3": "a learned map has one step",
    "export IN --step 0.3": "no family",
    "gen IN --step -1": "step",
    "gen IN -p gg=3": "gg",
}
INPUTS = {"rollout": "model.safetensors", "train": "data.h5", "export": "model.safetensors"}
OUTPUTS = {"rollout": "out.h5", "train": "out.safetensors", "export": "out.c", "gen": "out.h5"}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A dataset, a model of it, a table, and a file in the place of every output."""
    folder = tmp_path_factory.mktemp("inputs")
    system = vp.load_system("pendulum")
    data = vp.generate(system, folder / "data.h5", count=10, steps=6, rtol=1e-6, atol=1e-6)
    model = vp.models.build(system, "spff", functions="polynomial", degree=3)
    vp.train(model, data, epochs=1, compiled=False)
    vp.save(model, folder / "model.safetensors")
    rows = "".join(f"{0.1 * n},{n},{-n}\n" for n in range(40))
    (folder / "table.csv").write_text("t,q,p\n" + rows)
    for name in OUTPUTS.values():
        (folder / name).write_text("in the way")
    return folder


@pytest.mark.parametrize("command", [*NAMES][::4])
def test_arguments_come_before_a_missing_file(run, command):
    name, *arguments = command.replace("IN", "missing.h5").split()
    assert refused(run(MAINS[name], *arguments), NAMES[command])


@pytest.mark.parametrize("command", [*NAMES, *VALUES])
def test_arguments_come_before_an_output_that_exists(run, inputs, monkeypatch, command):
    monkeypatch.chdir(inputs)
    name = command.split()[0]
    given = "table.csv" if "--from" in command else INPUTS.get(name, "pendulum")
    _, *arguments = command.replace("IN", given).split()
    result = run(MAINS[name], *arguments, "-o", OUTPUTS[name])
    assert refused(result, (NAMES | VALUES)[command])
    assert (inputs / OUTPUTS[name]).read_text() == "in the way"


@pytest.mark.parametrize("name", MAINS)
def test_what_exists_is_told_where_all_else_is_right(run, inputs, monkeypatch, name):
    monkeypatch.chdir(inputs)
    result = run(MAINS[name], INPUTS.get(name, "pendulum"), "-o", OUTPUTS[name])
    assert refused(result, f"{OUTPUTS[name]} exists already")
