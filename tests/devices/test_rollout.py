"""Rollouts and all that is measured on them, of models on a device: what the CPU gives."""

import contextlib
import copy

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.devices.pretended_gpu import on_the_cpu
from tests.devices.same import assert_same
from tests.nn.laws import randomise
from vpintegrator.errors import InputError
from vpintegrator.models.derivatives import network_jacobian, network_tangent
from vpintegrator.rollout import open_rollout

KINDS = {
    "window 1": ("vpff", {"functions": "polynomial", "degree": 3, "depth": 1}),
    "window 3": ("vpt", {"depth": 1, "width": 4}),
    "fewer new": ("vpt", {"depth": 1, "width": 4, "prediction_window": 1}),
    "stiefel": (
        "transformer",
        {"depth": 1, "width": 3, "heads": 3, "stiefel": True, "inner": 3, "window": 2},
    ),
    "reversible": ("vpff", {"depth": 1, "width": 4, "reversing_symmetries": "of the system"}),
}


def built(name):
    system = vp.load_system("rigid-body")
    kind, arguments = KINDS[name]
    if "reversing_symmetries" in arguments:
        arguments = arguments | {"reversing_symmetries": system.reversing_symmetries}
    torch.manual_seed(0)
    model = vp.models.ARCHITECTURES[kind](dim=3, **arguments)
    randomise(model.core, 0.05, 1)
    model.origin = vp.models.Origin(system, 0.2)
    return model.eval()


def windows(model, count=4):
    generator = np.random.default_rng(0)
    return generator.uniform(-1, 1, (count, model.window, model.dim))


@pytest.mark.parametrize("name", KINDS)
def test_rollouts_in_pytorch(device, name):
    model = built(name)
    there = copy.deepcopy(model).to(device)
    initial = windows(model)
    initial[0] = 1e200  # which polynomials make infinite, and NaN from there on
    with on_the_cpu():
        expected = vp.rollout.rollout(model, initial, 17, compiled=False)
    found = vp.rollout.rollout(there, initial, 17, compiled=False)
    assert isinstance(found, np.ndarray)
    assert np.isnan(found[0, -1]).all() or name != "window 1"
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    expected, initial = expected[1:], initial[1:]
    tensors = vp.rollout.rollout(there, torch.from_numpy(initial), 17, compiled=False)
    assert_same(tensors, torch.from_numpy(expected), device)


def test_derivatives(device):
    model = built("window 1")
    there, initial = copy.deepcopy(model).to(device), windows(model)
    vectors = np.random.default_rng(1).normal(size=(3, 2))
    for function, arguments in ((network_jacobian, ()), (network_tangent, (vectors,))):
        found = function(there, initial, *arguments)
        np.testing.assert_allclose(found, function(model, initial, *arguments), atol=1e-12)


def compared(model, where):
    options = {"steps": 40, "trajectories": 3, "compiled": False}
    with on_the_cpu() if where == "cpu" else contextlib.nullcontext():
        return vp.compare(copy.deepcopy(model).to(where), against=["rk4"], **options)


@pytest.mark.parametrize("name", ["reversible", "window 3"])
def test_comparisons_with_all_diagnostics(device, name, tmp_path):
    model = built(name)
    found, expected = (compared(model, where) for where in (device, "cpu"))
    for run, other in zip(found.runs.values(), expected.runs.values(), strict=True):
        np.testing.assert_allclose(run.states, other.states, rtol=0, atol=1e-11)
    for name in expected.runs:
        numbers, others = (numbers_of(report, name) for report in (found, expected))
        assert numbers.keys() == others.keys() and len(numbers) > 5
        for key, value in others.items():
            if "seconds" not in key:
                assert numbers[key] == pytest.approx(value, rel=1e-4, abs=1e-9, nan_ok=True), key
    found.save(tmp_path / "rollout.h5")
    assert open_rollout(tmp_path / "rollout.h5").runs.keys() == found.runs.keys()


def numbers_of(report, name):
    """All numbers of a method's summary, by their names."""
    found = dict(vars(report.summary(name)))
    for key in ("invariants", "volume", "drifts"):
        found |= {f"{key}, {which}": value for which, value in found[key].items()}
    return {key: value for key, value in found.items() if isinstance(value, float | int)}


def test_a_model_on_a_gpu_runs_in_pytorch(device):
    model = built("window 1").to(device)
    initial = torch.from_numpy(windows(model)).to(device)
    found = vp.rollout.rollout(model, initial, 20)
    assert_same(vp.rollout.rollout(model, initial, 20, compiled=False), found.cpu(), device, 0)
    with pytest.raises(InputError, match="on cuda models run in PyTorch"):
        vp.rollout.rollout(model, initial, 20, compiled=True)
