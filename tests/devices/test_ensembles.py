"""Ensembles of a model on a GPU, or a pretended one: the statistics of the CPU."""

import copy

import numpy as np
import pytest

import vpintegrator as vp
from tests.compiled.gpu.conftest import host_kernels
from vpintegrator.compiled.gpu import GpuModel, kernels
from vpintegrator.rollout.ensembles import mover, shard
from vpintegrator.rollout.ensembles.run import EnsembleMeasures, ensemble

MEASURES = EnsembleMeasures(view="q=-2:2,p=-2:2", resolution=8, rotation=(0.0, 0.0))


@pytest.mark.parametrize("compiled", ["gpu", False])
def test_an_ensemble(device, is_pretended, monkeypatch, tmp_path, compiled):
    if is_pretended:
        monkeypatch.setattr(kernels, "kernels_for", host_kernels)
    system = vp.load_system("pendulum")
    model = vp.models.SymplecticFeedForward(dim=2, functions="polynomial", degree=3, depth=1)
    model.metadata = {"system": system.text, "parameters": "{}", "step": "0.2"}
    there = copy.deepcopy(model).to(device)
    used, advance = [], GpuModel.advance
    monkeypatch.setattr(mover, "_ON_A_GPU", 40)
    monkeypatch.setattr(shard, "IN_A_CACHE", 16)
    monkeypatch.setattr(
        GpuModel, "advance", lambda *given: used.append(len(given[1])) or advance(*given)
    )
    initial = np.random.default_rng(0).normal(size=(70, 2))
    options = {"initial": initial, "steps": 40, "measures": MEASURES}
    found = ensemble(there, tmp_path / "there.h5", compiled=compiled, **options)
    expected = ensemble(model, tmp_path / "here.h5", **options)
    assert bool(used) == (compiled == "gpu")
    assert used[-1:] in ([], [30])  # the rest of a block
    np.testing.assert_array_equal(found.density, expected.density)
    np.testing.assert_array_equal(found.left, expected.left)
    np.testing.assert_allclose(found.rotation, expected.rotation, rtol=1e-9, atol=1e-12)
