"""The benchmark of symplectic networks, on one system for an instant."""

import json

import pytest
from click.testing import CliRunner


@pytest.fixture
def benchmark(script, monkeypatch):
    """The script as a module; entries are measured in this process."""
    module = script("symplectic")
    length = {"steps": 10, "trajectories": 3, "tangent_steps": 0, "compiled": False}
    monkeypatch.setattr(module, "_length", lambda: length)
    monkeypatch.setattr(module.time, "perf_counter", module.time.perf_counter)  # given back
    monkeypatch.setattr(module, "in_a_process", lambda *arguments: module.measure(*arguments))
    return module


def test_the_tables(tmp_path, benchmark):
    arguments = ["--folder", str(tmp_path), "--quick", "--markdown"]
    result = CliRunner().invoke(benchmark.main, arguments)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "pendulum-spff.json").read_text())
    verlet = json.loads((tmp_path / "pendulum-stoermer-verlet.json").read_text())
    assert found["form"] < 1e-13 and found["on windows"] is None
    assert verlet["form"] < 1e-13 and 0 < verlet["error"] < 1e-2
    published = json.loads((tmp_path / "pendulum-henonnet-adam.json").read_text())
    assert published["form"] < 1e-12 and published["on windows"] is None
    assert f"| {found['error']:.1e}, {found['RMSE']:.1e} |" in result.output
    assert "**1 s of training each**" in result.output
