"""Machine code on a device, of rollouts and of training: what PyTorch gives on the CPU."""

import contextlib
import copy

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.devices.pretended_gpu import counted, on_the_cpu
from tests.devices.same import assert_same
from tests.devices.test_rollout import built, windows
from tests.training.conftest import weights
from vpintegrator import models
from vpintegrator.compiled import compile_model
from vpintegrator.data import generate
from vpintegrator.errors import InputError

pytestmark = pytest.mark.usefixtures("machine_code")


@pytest.mark.parametrize("name", ["window 1", "fewer new", "reversible"])
def test_rollouts(device, name):
    model = built(name)
    there = copy.deepcopy(model).to(device)
    initial = windows(model)
    with on_the_cpu():
        expected = vp.rollout.rollout(model, initial, 20, compiled=False)
    found = vp.rollout.rollout(there, torch.from_numpy(initial).to(device), 20, compiled="gpu")
    assert_same(found, torch.from_numpy(expected), device, 1e-11)
    np.testing.assert_allclose(
        vp.rollout.rollout(there, initial, 20, compiled="gpu"), expected, rtol=0, atol=1e-11
    )


def test_a_rollout_copies_nothing_on_the_way(device, is_pretended):
    if not is_pretended:
        pytest.skip("a GPU counts nothing")
    model = built("window 1").to(device)
    initial = torch.from_numpy(windows(model)).to(device)
    machine = compile_model(model, len(initial))
    with counted() as counts:
        machine.advance(initial, 20)
    assert set(counts) <= {"kernels"}


def test_a_comparison(device):
    model = built("reversible")
    options = {"against": ["rk4"], "steps": 30, "trajectories": 3}
    found = vp.compare(copy.deepcopy(model).to(device), compiled="gpu", **options)
    with on_the_cpu():
        expected = vp.compare(model, compiled=False, **options)
    for run, other in zip(found.runs.values(), expected.runs.values(), strict=True):
        np.testing.assert_allclose(run.states, other.states, rtol=0, atol=1e-11)


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    path = tmp_path_factory.mktemp("devices") / "body.h5"
    return generate("rigid-body", path, count=24, steps=5)


def trained(data, where, compiled, **options):
    torch.manual_seed(0)
    model = models.VolumePreservingFeedForward(dim=3, width=3, depth=1)
    options = {"epochs": 3, "batch": 60, "progress": False} | options
    with on_the_cpu() if where == "cpu" else contextlib.nullcontext():
        history = vp.train(model, data, device=where, compiled=compiled, **options)
    assert history.compiled == bool(compiled)
    return weights(model), history


TRAININGS = {
    "levenberg-marquardt": {},
    "adam": {"noise": 1e-3},
    "l-bfgs": {"epochs": 1},
    "levenberg-marquardt, horizon": {"horizon": 2, "loss": "relative"},
}


@pytest.mark.parametrize("name", TRAININGS)
def test_training(device, body, name):
    options = {"optimizer": name.partition(",")[0], **TRAININGS[name]}
    found, history = trained(body, device, "gpu", **options)
    expected, other = trained(body, "cpu", False, **options)
    assert_same(found, expected, device, 1e-8)
    np.testing.assert_allclose(history.validation_error, other.validation_error, rtol=1e-6)


def test_training_goes_on_with_machine_code_elsewhere(device, body, tmp_path):
    def interrupt(history):
        if history.epochs == 1:
            raise KeyboardInterrupt

    def code(where):
        return "gpu" if where == device else False

    whole, _ = trained(body, "cpu", False, epochs=2)
    for before, after in ((device, "cpu"), ("cpu", device)):
        path = tmp_path / "checkpoint"
        trained(body, before, code(before), epochs=2, checkpoint=path, progress=interrupt)
        found, _ = trained(body, after, code(after), epochs=2, checkpoint=path, resume=True)
        torch.testing.assert_close(found.cpu(), whole, rtol=0, atol=1e-8)


def test_gauss_newton_has_none(device, body):
    with pytest.raises(InputError, match="runs in PyTorch only"):
        trained(body, device, "gpu", optimizer="gauss-newton")


def test_kernels_are_used_where_they_are_asked_for(device, body):
    _, history = trained(body, device, None)
    assert not history.compiled
    with pytest.raises(InputError, match="are compiled = gpu"):
        trained(body, device, True)
    with pytest.raises(InputError, match="is for models on a GPU"):
        trained(body, "cpu", "gpu")
