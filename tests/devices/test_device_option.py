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


def test_the_command_says_where_it_trains(device, data):
    options = ["--set", "functions=neurons", "--epochs", "2"]
    options += ["--device", str(device), "-o", "model.safetensors"]
    result = CliRunner().invoke(train, ["pendulum.h5", *options])
    assert result.exit_code == 0, result.output
    assert f"levenberg-marquardt on {device}: 2 epochs" in result.output
    training = json.loads(vp.load("model.safetensors").metadata["training"])
    assert training["device"] == str(device)


def test_models_roll_out_there(device, data):
    model = vp.models.VolumePreservingFeedForward(dim=2, width=4, depth=1)
    vp.train(model, data, epochs=2, compiled=False, progress=False)
    vp.save(model, "model.safetensors")
    options = ["--steps", "20", "--trajectories", "2"]
    tables = []
    for name in ("cpu", str(device)):
        more = ["--device", name, "-o", f"{name}.h5", "--json"]
        result = CliRunner().invoke(rollout, ["model.safetensors", *options, *more])
        assert result.exit_code == 0, result.output
        tables.append(json.loads(result.stdout)["table"])
    names = ("cpu", str(device))
    here, there = (vp.open_rollout(f"{name}.h5").run("model").states for name in names)
    assert np.allclose(here, there, rtol=1e-12, atol=1e-13)
    assert tables[0][0]["worst RMSE"] == pytest.approx(tables[1][0]["worst RMSE"], rel=1e-9)


def test_a_gpu_that_is_full_is_one_sentence(data, monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    monkeypatch.setattr(TrainingData, "normalise", full)
    options = ["--set", "functions=neurons", "--epochs", "2", "-o", "model.safetensors"]
    result = CliRunner().invoke(train, ["pendulum.h5", *options])
    assert result.exit_code == 2
    assert "Error: the GPU has no memory left: take fewer windows (--batch)" in result.output
    assert not list(data.path.parent.glob("model*"))


def test_methods_run_on_the_cpu():
    result = CliRunner().invoke(rollout, ["--system", "pendulum", "--device", "cuda"])
    assert result.exit_code == 2
    assert "models alone run on other devices than the CPU" in result.output


def test_a_device_that_is_not_there(data):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    result = CliRunner().invoke(train, ["pendulum.h5", "--device", "cuda", "--epochs", "1"])
    assert result.exit_code == 2
    assert "--device cuda: PyTorch has no such device here; there is cpu" in result.output
