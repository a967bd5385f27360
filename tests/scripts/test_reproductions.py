"""The reproduction of the published experiment, with hardly any training."""

import importlib
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import vpintegrator as vp
from tests.scripts.conftest import run

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.mark.filterwarnings("ignore:.* is not to be relied on")
def test_the_rigid_body(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(SCRIPTS)
    module = importlib.import_module("reproduce_rigid_body")
    monkeypatch.setattr(vp, "draw", lambda report, folder, overwrite: Path(folder).mkdir())
    monkeypatch.setattr(vp, "compare", partial(vp.compare, compiled=False))
    folder = tmp_path / "study"
    fewer = ["--epochs", "2", "--seeds", "2", "--seconds", "0.5", "--time", "2", "--count", "60"]
    output = run(module, *fewer, "-o", str(folder))
    lines = {line[:32].strip() for line in output.splitlines()}
    titles = {f"{name} (2 seeds)" for name in module.NETWORKS}
    assert {*titles, "our VPT", "RK4", "VPT, published weights"} <= lines
    report = vp.open_rollout(folder / "rollout.h5")
    assert {*module.NETWORKS} < {*report.runs}
    assert report.is_reference_given
    states = vp.integrate("rigid-body", "implicit-midpoint", module.ORBITS, 0.2, 10)
    np.testing.assert_array_equal(report.reference, states)
    model = vp.load(folder / "vpt-1.safetensors")
    assert (model.scale == 1).all()  # as published
    assert "adam, as published" in model.metadata["training"]
    assert (folder / "figures" / "training-loss.png").exists()
