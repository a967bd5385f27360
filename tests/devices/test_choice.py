"""``--device``: a device by name, and the faster of two."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import vpintegrator as vp
from vpintegrator.cli.rollout import main as rollout
from vpintegrator.cli.train import main as train
from vpintegrator.errors import InputError
from vpintegrator.runtime import devices


@pytest.fixture
def chosen(device, monkeypatch):
    """Both devices, of which the GPU wins whatever it takes, or loses."""
    monkeypatch.setattr(devices, "devices", lambda: ["cpu", str(device)])
    monkeypatch.setattr("torch.cuda.get_device_name", lambda name: "Abacus 9")

    def choose(gpu):
        monkeypatch.setattr(devices, "_WORTH", 0.0 if gpu else 1e9)
        return str(device) if gpu else "cpu"

    return choose


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return vp.generate("pendulum", "pendulum.h5", count=12, steps=6)


@pytest.mark.parametrize("gpu", [True, False])
def test_training_on_the_faster_device(chosen, data, gpu):
    where = chosen(gpu)
    model = vp.models.VolumePreservingFeedForward(dim=2, width=4, depth=1)
    history = vp.train(model, data, epochs=2, device="auto", compiled=False, progress=False)
    assert history.device == where
    assert str(model.scale.device) == where
    assert history.device_reason.startswith("a gradient takes ")
    assert "Abacus 9" in history.summary()["device_reason"]


def test_the_command_says_where_it_trains(chosen, data):
    where = chosen(True)
    options = ["--functions", "neurons", "--epochs", "2", "--compiled", "no", "--device", "auto"]
    result = CliRunner().invoke(train, ["pendulum.h5", *options, "-o", "model.safetensors"])
    assert result.exit_code == 0, result.output
    assert f"on {where}: a gradient takes" in result.output
    assert f"levenberg-marquardt on {where}: 2 epochs" in result.output
    training = json.loads(vp.load("model.safetensors").metadata["training"])
    assert training["device"] == where


@pytest.mark.parametrize("name", ["cuda", "auto"])
def test_models_roll_out_there(chosen, data, name):
    where = chosen(True)
    model = vp.models.VolumePreservingFeedForward(dim=2, width=4, depth=1)
    vp.train(model, data, epochs=2, compiled=False, progress=False)
    vp.save(model, "model.safetensors")
    options = ["--steps", "20", "--trajectories", "2", "--compiled", "no"]
    tables = []
    for device in ("cpu", name):
        more = ["--device", device, "-o", f"{device}.h5", "--json"]
        result = CliRunner().invoke(rollout, ["model.safetensors", *options, *more])
        assert result.exit_code == 0, result.output
        tables.append(json.loads(result.stdout)["table"])
    if name == "auto":
        assert f"model runs on {where}: a prediction takes" in result.stderr
    here, there = (vp.open_rollout(f"{device}.h5").run("model").states for device in ("cpu", name))
    assert np.allclose(here, there, rtol=1e-12, atol=1e-13)
    assert tables[0][0]["worst RMSE"] == pytest.approx(tables[1][0]["worst RMSE"], rel=1e-9)


def test_several_processes_must_name_theirs(data, monkeypatch):
    monkeypatch.setattr("vpintegrator.training.processes.count", lambda: 2)
    model = vp.models.VolumePreservingFeedForward(dim=2)
    with pytest.raises(InputError, match="several processes must name theirs"):
        vp.train(model, data, epochs=1, device="auto")


def test_a_gpu_that_is_full_is_one_sentence(data, monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    monkeypatch.setattr("vpintegrator.training.train", full)
    options = ["--functions", "neurons", "--epochs", "2", "-o", "model.safetensors"]
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
