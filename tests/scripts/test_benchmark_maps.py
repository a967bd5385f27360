"""The benchmark of maps over a turn, for an instant."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import vpintegrator as vp


@pytest.fixture
def benchmark(script, monkeypatch):
    """The script as a module, with few settings."""
    module, harness = script("maps"), script("harness")
    monkeypatch.setattr(harness, "_SAMPLE", 0.0)
    monkeypatch.setattr(harness, "_FEWEST", 1)
    monkeypatch.setattr(module, "TOLERANCES", (1e-6,))
    monkeypatch.setattr(module, "SCIPY", (1e-6,))
    monkeypatch.setattr(module, "CLASSICAL", ("rk4",))
    monkeypatch.setattr(module, "STEPS", (32,))
    cases = {
        "pendulum": module.Case("pendulum", 1.0, train=20),
        "forced": module.Case("forced-pendulum", train=20),
        "section": module.Case("henon-heiles", energy=1 / 12, train=20),
    }
    monkeypatch.setattr(module, "CASES", cases)
    return module


def test_what_moves_states_gives_the_same(tmp_path, benchmark):
    """All solvers of a case, heyoka among them where it is installed, at a moderate accuracy."""
    for case in benchmark.CASES.values():
        turn = benchmark.Turn(case, 16)
        for candidate in benchmark.solvers(case, turn):
            assert candidate.error() < 1e-2, candidate.method
            assert candidate.once().shape[1] == candidate.turns


def test_the_table_the_figure_and_what_is_there_already(tmp_path, benchmark, monkeypatch):
    for name, case in benchmark.CASES.items():
        model = vp.models.build(
            benchmark.Turn(case, 1).learned,
            arguments={"functions": "polynomial", "degree": 3},
        )
        vp.save(model, tmp_path / f"{name}.safetensors")
    arguments = ["--folder", str(tmp_path), "--quick", "--figure", str(tmp_path / "maps.png")]
    result = CliRunner().invoke(benchmark.main, arguments)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "forced.json").read_text())
    assert found["turn"] == pytest.approx(np.pi) and found["dim"] == 2
    assert found["rows"][0]["method"] == "learned"
    assert (tmp_path / "maps.png").stat().st_size > 10_000
    assert "best / learned" in result.output

    monkeypatch.setattr(benchmark, "measure", None)  # nothing is measured again
    again = CliRunner().invoke(benchmark.main, arguments)
    assert again.exit_code == 0, again.output
    assert again.stdout == result.stdout.replace(result.stderr, "")
