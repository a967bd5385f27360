"""Ensembles of a model on a GPU, or a pretended one: the statistics of the CPU."""

import copy

import numpy as np

import vpintegrator as vp
from vpintegrator.rollout.ensembles import mover, shard
from vpintegrator.rollout.ensembles.run import EnsembleMeasures, ensemble

MEASURES = EnsembleMeasures(view="q=-2:2,p=-2:2", resolution=8, rotation=(0.0, 0.0))


def test_an_ensemble(device, monkeypatch, tmp_path):
    system = vp.load_system("pendulum")
    model = vp.models.SymplecticFeedForward(dim=2, functions="polynomial", degree=3, depth=1)
    model.metadata = {"system": system.text, "parameters": "{}", "step": "0.2"}
    there = copy.deepcopy(model).to(device)
    monkeypatch.setattr(mover, "_ON_A_GPU", 40)
    monkeypatch.setattr(shard, "IN_A_CACHE", 16)
    initial = np.random.default_rng(0).normal(size=(70, 2))
    options = {"initial": initial, "steps": 40, "measures": MEASURES}
    found = ensemble(there, tmp_path / "there.h5", compiled=False, **options)
    expected = ensemble(model, tmp_path / "here.h5", **options)
    np.testing.assert_array_equal(found.density, expected.density)
    np.testing.assert_array_equal(found.left, expected.left)
    np.testing.assert_allclose(found.rotation, expected.rotation, rtol=1e-9, atol=1e-12)
