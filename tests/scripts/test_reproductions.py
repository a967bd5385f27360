"""The reproduction of the published experiment, with hardly any training."""

import importlib
from pathlib import Path

from click.testing import CliRunner

import vpintegrator as vp

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_the_rigid_body(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(SCRIPTS)
    module = importlib.import_module("reproduce_rigid_body")
    monkeypatch.setattr(vp, "draw", lambda report, folder, overwrite: None)
    folder = tmp_path / "study"
    given = ["--seconds", "0.3", "--time", "2", "--published-training", "-o", str(folder)]
    result = CliRunner().invoke(module.main, given)
    assert result.exit_code == 0, result.output
    lines = {line[:28].strip() for line in result.output.splitlines()}
    assert {*module.NETWORKS, *module.METHODS, "VPT, published"} <= lines
    report = vp.open_rollout(folder / "rollout.h5")
    assert {*report.runs} == {*module.NETWORKS, *module.METHODS}
    sizes = {
        name: sum(p.numel() for p in make().parameters()) for name, make in module.NETWORKS.items()
    }
    published = {name: sizes[name] for name in module.PUBLISHED}
    assert published == {"feed-forward": 135, "VPT": 180, "standard transformer": 189}
    assert (vp.load(folder / "vpt.safetensors").scale == 1).all()  # as published
    assert abs(report.summary("reversible VPT").volume["step"]) < 1e-10
