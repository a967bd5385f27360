"""Training on a device: what the CPU gives, to rounding, with every optimizer and option."""

import contextlib
import copy

import pytest
import torch

import vpintegrator as vp
from tests.devices.pretended_gpu import on_the_cpu
from tests.devices.same import assert_same
from tests.training.conftest import ITERATIVE, weights
from vpintegrator import models
from vpintegrator.training import kinds_of
from vpintegrator.training.optimizers import LBFGS

SAME = 1e-9  # a few steps magnify rounding
FEW = {"batch": 60, "compiled": False}


@pytest.fixture(autouse=True)
def few_iterations(monkeypatch):
    """In an epoch: each is many small operations, which take long where the GPU is pretended."""
    monkeypatch.setattr(LBFGS, "iterations", 5)


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    path = tmp_path_factory.mktemp("devices") / "body.h5"
    return vp.generate("rigid-body", path, count=24, steps=5)


@pytest.fixture(scope="module")
def swing(tmp_path_factory):
    path = tmp_path_factory.mktemp("devices") / "swing.h5"
    return vp.generate("pendulum", path, count=24, steps=5)


def made(name="vpff", **options):
    torch.manual_seed(0)
    if name == "vpff":
        options = {"width": 4, "depth": 1} | options
    return models.ARCHITECTURES[name](**{"dim": 3} | options)


def trained(data, where, *model, epochs=3, arguments=(), **options):
    """A model after some epochs on a device, and their history."""
    new = made(*model, **dict(arguments))
    with on_the_cpu() if where == "cpu" else contextlib.nullcontext():
        return new, vp.train(new, data, epochs=epochs, device=where, **(FEW | options))


def assert_same_training(data, device, *model, tolerance=SAME, **options):
    (there, found), (here, expected) = (
        trained(data, where, *model, **options) for where in (device, "cpu")
    )
    assert_same(weights(there), weights(here), device, tolerance)
    for name in ("training_error", "validation_error"):
        pair = (torch.tensor(getattr(history, name)) for history in (found, expected))
        torch.testing.assert_close(*pair, rtol=100 * tolerance, atol=1e-12)
    return there


@pytest.mark.parametrize("optimizer", ITERATIVE)
def test_every_optimizer_gives_what_the_cpu_gives(device, body, optimizer):
    assert_same_training(body, device, optimizer=optimizer)


OPTIONS = {
    "horizon": {"horizon": 2},
    "noise": {"noise": 1e-3, "optimizer": "adam"},
    "relative": {"loss": "relative", "optimizer": "l-bfgs"},
    "polynomials": {"arguments": {"functions": "polynomial", "degree": 2, "sweep": "symmetric"}},
    "chosen": {"optimizer": "auto"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_gives_what_the_cpu_gives(device, body, name):
    assert_same_training(body, device, **OPTIONS[name])


WINDOWS = {
    "vpt": {},
    "spt": {"dim": 2},
    "transformer": {"attention": "general", "block": "encoder", "norm": "batch", "inner": 3},
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(device, body, swing, name):
    arguments = {"depth": 1, "window": 2, **WINDOWS[name]}
    optimizer = "adam" if name == "transformer" else "levenberg-marquardt"
    data = swing if name == "spt" else body
    assert_same_training(data, device, name, arguments=arguments, optimizer=optimizer)


def test_a_trained_model_is_trained_on(device, body, tmp_path):
    path = tmp_path / "model.safetensors"
    there, history = trained(body, device, output=path)
    loaded = vp.load(path, device)
    assert torch.equal(weights(loaded), weights(there))
    again = vp.train(loaded, body, epochs=2, device=device, **FEW)
    assert again.validation_error[0] <= history.validation_error[-1]


def test_functions_are_found(device, swing):
    few = {"epochs": 3, "target": 0.1}
    found = [
        vp.fit(swing, kinds_of("spff", {"degree": 2, "depth": 1}, FEW | {"device": where}), **few)
        for where in (device, "cpu")
    ]
    assert found[0].model.arguments == found[1].model.arguments
    assert found[0].model.scale.device == device
    assert found[0].error == pytest.approx(found[1].error, rel=1e-4)


def test_a_family_trains(device, tmp_path):
    data = vp.generate(
        "pendulum", tmp_path / "family.h5", count=16, steps=3, vary={"step": [0.05, 0.2]}
    )
    options = {"functions": "polynomial", "degree": 4, "depth": 1}
    built = [vp.models.build(data.family.extended, "spff", options)]
    built.append(copy.deepcopy(built[0]))
    for model, where in zip(built, (device, "cpu"), strict=True):
        vp.train(model, data, epochs=2, device=where, **FEW)
    assert_same(weights(built[0]), weights(built[1]), device, SAME)
