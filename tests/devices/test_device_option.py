"""``--device``: where commands train and run."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import vpintegrator as vp
from vpintegrator.cli.rollout import main as rollout
from vpintegrator.cli.train import main as train
from vpintegrator.training.training_data import TrainingData


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return vp.generate("pendulum", "pendulum.h5", count=12, steps=6)


def run(command, *arguments, code=0):
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == code, result.output
    return result


TRAIN = (
    "pendulum.h5",
    "--model",
    "spff",
    "--set",
    "functions=neurons",
    "--epochs",
    "2",
    "-o",
    "model.safetensors",
)


def test_models_train_and_roll_out_there(device, data):
    result = run(train, *TRAIN, "--device", str(device))
    assert f"levenberg-marquardt on {device}: 2 epochs" in result.output
    training = vp.load("model.safetensors").record.history
    assert training.device == str(device)
    tables, states = [], []
    for name in ("cpu", str(device)):
        options = ["--steps", "20", "--trajectories", "2", "-o", f"{name}.h5", "--json"]
        result = run(rollout, "model.safetensors", "--device", name, *options)
        tables.append(json.loads(result.stdout)["table"][0]["worst RMSE"])
        states.append(vp.open_rollout(f"{name}.h5").run("model").states)
    assert np.allclose(*states, rtol=1e-12, atol=1e-13)
    assert tables[0] == pytest.approx(tables[1], rel=1e-9)


def test_a_gpu_that_is_full_is_one_sentence(data, monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    monkeypatch.setattr(TrainingData, "normalise", full)
    result = run(train, *TRAIN, code=2)
    assert "Error: the GPU has no memory left: take fewer windows (--batch)" in result.output
    assert not list(data.path.parent.glob("model*"))


def test_where_nothing_runs(data):
    result = run(rollout, "--system", "pendulum", "--device", "cuda", code=2)
    assert "models alone run on other devices than the CPU" in result.output
    if not torch.cuda.is_available():
        result = run(train, "pendulum.h5", "--device", "cuda", "--epochs", "1", code=2)
        assert "--device cuda: PyTorch has no such device here; there is cpu" in result.output
