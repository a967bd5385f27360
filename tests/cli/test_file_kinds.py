"""Files of one kind where another belongs: what the file is, and which command takes it."""

import json
import shutil

import h5py
import numpy as np
import pytest

import vpintegrator as vp
from tests.cli.conftest import refused
from vpintegrator.cli.export import main as export
from vpintegrator.cli.gen import main as gen
from vpintegrator.cli.importing import main as importing
from vpintegrator.cli.plot import main as plot
from vpintegrator.cli.rollout import main as rollout
from vpintegrator.cli.show import main as show
from vpintegrator.cli.train import main as train
from vpintegrator.storage.hdf5 import write_attributes

# each file, what it is said to be, and the command that takes it
FILES = {
    "data.h5": ("a dataset", "vp-train data.h5"),
    "model.safetensors": ("a model", "vp-rollout model.safetensors"),
    "rollout.h5": ("a rollout", "vp-plot rollout.h5"),
    "shard.h5": ("one part of a dataset", "the whole dataset"),
    "system.toml": ("a description of a system", "vp-gen system.toml"),
    "recipe.toml": ("a recipe of a dataset", "vp-gen recipe.toml"),
    "table.csv": ("a file of arrays", "vp-import table.csv"),
    "other.h5": ("an HDF5 file of another program", "vp-import other.h5"),
    "other.safetensors": ("a safetensors file of another program", "vp-train"),
}
# each command, and what it takes
COMMANDS = {
    "rollout {}": {"model.safetensors"},
    "rollout --dataset {} --system pendulum --step 0.1 --reference dataset": {"data.h5"},
    "rollout --system {}": {"system.toml"},
    "train {}": {"data.h5"},
    "train data.h5 --start {}": {"model.safetensors"},
    "plot {}": {"rollout.h5", "model.safetensors"},
    "export {}": {"model.safetensors"},
    "gen {}": {"system.toml", "recipe.toml"},
    "import {}": {"table.csv", "other.h5"},
    "show {}": {"data.h5", "rollout.h5", "model.safetensors", "system.toml"},
}
MAINS = {"rollout": rollout, "train": train, "plot": plot, "export": export, "gen": gen}
MAINS |= {"import": importing, "show": show}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a file of every kind."""
    folder = tmp_path_factory.mktemp("files")
    vp.generate("pendulum", folder / "data.h5", count=10, steps=6, rtol=1e-6, atol=1e-6)
    vp.compare(None, "rk4", system="pendulum", step=0.1, steps=4).save(folder / "rollout.h5")
    model = vp.models.build(
        vp.load_system("pendulum"), "spff", {"functions": "polynomial", "degree": 3}
    )
    vp.save(model, folder / "model.safetensors")
    header = json.dumps({"a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}).encode()
    (folder / "other.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    for name, kind in (("shard.h5", "shard-1"), ("other.h5", None)):
        with h5py.File(folder / name, "w") as file:
            file["x"] = np.zeros(3)
            if kind:
                write_attributes(file, {"format": f"vpintegrator-{kind}"})
    (folder / "system.toml").write_text('state = ["q", "p"]\nhamiltonian = "p**2/2 + q**2/2"\n')
    (folder / "recipe.toml").write_text('system = "pendulum"\nstep = 0.1\n')
    (folder / "table.csv").write_text("t,q\n0,1\n1,2\n")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_what_a_file_is_and_who_takes_it(run, tmp_path, files, command):
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    name, *arguments = command.split()
    for file, (kind, use) in FILES.items():
        if file in COMMANDS[command]:
            continue
        result = run(MAINS[name], *(argument.format(file) for argument in arguments))
        assert refused(result, f"{file} is {kind}, not a"), (command, file)
        assert use in result.output
        assert "header" not in result.output


def test_a_model_is_known_by_its_content_not_by_its_name(run, tmp_path, files):
    shutil.copy(files / "model.safetensors", tmp_path / "model.dat")
    assert run(show, "model.dat").exit_code == 0
    assert refused(run(train, "model.dat"), "model.dat is a model, not a dataset")
