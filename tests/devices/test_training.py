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
from vpintegrator.training import TrainingOptions, search
from vpintegrator.training.optimizers import LBFGS

SAME = 1e-9  # a few steps magnify rounding
FEW = {"batch": 60, "compiled": False}


@pytest.fixture(autouse=True)
def few_iterations(monkeypatch):
    """In an epoch: each is many small operations, which take long where the GPU is pretended."""
    monkeypatch.setattr(LBFGS, "iterations", 5)


def dataset(folder, name, **options):
    return vp.generate(name, folder / "data.h5", count=24, steps=5, **options)


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    return dataset(tmp_path_factory.mktemp("body"), "rigid-body")


@pytest.fixture(scope="module")
def swing(tmp_path_factory):
    return dataset(tmp_path_factory.mktemp("swing"), "pendulum")


def trained(data, where, name="vpff", epochs=3, arguments=(), **options):
    """A model after some epochs on a device, and their history."""
    torch.manual_seed(0)
    sizes = {"width": 4, "depth": 1} if name == "vpff" else {}
    new = models.ARCHITECTURES[name](**{"dim": 3} | sizes | dict(arguments))
    with on_the_cpu() if where == "cpu" else contextlib.nullcontext():
        return new, vp.train(new, data, epochs=epochs, device=where, **(FEW | options))


OF_WINDOWS = {"depth": 1, "window": 2}
ENCODER = {"attention": "general", "block": "encoder", "norm": "batch", "inner": 3}
CASES = {
    **{name: {"optimizer": name} for name in ITERATIVE},
    "horizon": {"horizon": 2},
    "noise": {"noise": 1e-3, "optimizer": "adam"},
    "relative": {"loss": "relative", "optimizer": "l-bfgs"},
    "polynomials": {"arguments": {"functions": "polynomial", "degree": 2, "sweep": "symmetric"}},
    "chosen": {"optimizer": "auto"},
    "vpt": {"arguments": OF_WINDOWS, "optimizer": "levenberg-marquardt"},
    "spt": {"arguments": {"dim": 2, **OF_WINDOWS}, "optimizer": "levenberg-marquardt"},
    "transformer": {"arguments": {**OF_WINDOWS, **ENCODER}, "optimizer": "adam"},
}


@pytest.mark.parametrize("name", CASES)
def test_every_optimizer_option_and_window_gives_what_the_cpu_gives(device, body, swing, name):
    model = [name] if name in models.ARCHITECTURES else []
    there, found = trained(swing if name == "spt" else body, device, *model, **CASES[name])
    here, expected = trained(swing if name == "spt" else body, "cpu", *model, **CASES[name])
    assert_same(weights(there), weights(here), device, SAME)
    for error in ("training_error", "validation_error"):
        pair = (torch.tensor(getattr(history, error)) for history in (found, expected))
        torch.testing.assert_close(*pair, rtol=100 * SAME, atol=1e-12)


def test_a_trained_model_is_trained_on(device, body, tmp_path):
    path = tmp_path / "model.safetensors"
    there, history = trained(body, device)
    vp.save(there, path)
    loaded = vp.load(path, device)
    assert torch.equal(weights(loaded), weights(there))
    again = vp.train(loaded, body, epochs=2, device=device, **FEW)
    assert again.validation_error[0] <= history.validation_error[-1]


def on(device):
    """Options of a short training on a device."""
    return TrainingOptions(**FEW, device=str(device))


def test_functions_are_found(device, swing):
    few = {"epochs": 3, "target": 0.1}
    found = [
        vp.fit(swing, [search("spff", {"degree": 2, "depth": 1}, training=on(where))], **few)
        for where in (device, "cpu")
    ]
    assert found[0].model.arguments == found[1].model.arguments
    assert found[0].model.scale.device == device
    assert found[0].error == pytest.approx(found[1].error, rel=1e-4)


def test_a_family_trains(device, tmp_path):
    data = dataset(tmp_path, "pendulum", vary={"step": [0.05, 0.2]})
    options = {"functions": "polynomial", "degree": 4, "depth": 1}
    built = [vp.models.build(data.family.extended, "spff", options)]
    built.append(copy.deepcopy(built[0]))
    for model, where in zip(built, (device, "cpu"), strict=True):
        vp.train(model, data, epochs=2, device=where, **FEW)
    assert_same(weights(built[0]), weights(built[1]), device, SAME)
