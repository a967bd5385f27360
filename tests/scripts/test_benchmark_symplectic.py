"""The benchmark of symplectic networks, on one system for an instant."""

import importlib
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

SCRIPTS = Path(__file__).parents[2] / "scripts" / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    """The script as a module; entries are measured in this process."""
    monkeypatch.syspath_prepend(SCRIPTS)
    harness = importlib.import_module("harness")
    monkeypatch.setattr(harness, "use_threads", lambda threads: None)
    sys.modules.pop("symplectic", None)
    module = importlib.import_module("symplectic")
    length = {"steps": 10, "trajectories": 3, "tangent_steps": 0, "compiled": False}
    monkeypatch.setattr(module, "_length", lambda: length)
    monkeypatch.setattr(module.time, "perf_counter", module.time.perf_counter)  # given back
    monkeypatch.setattr(module, "in_a_process", lambda *arguments: module.measure(*arguments))
    return module


def test_the_tables_and_what_is_there_already(tmp_path, benchmark, monkeypatch):
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

    monkeypatch.setattr(benchmark, "measure", None)  # nothing is measured again
    again = CliRunner().invoke(benchmark.main, arguments)
    assert again.exit_code == 0, again.output
    assert again.stdout == result.stdout.replace(result.stderr, "")
