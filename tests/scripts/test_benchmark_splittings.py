"""The benchmark of learned splittings, on a small dataset for an instant."""

import json

import pytest
from click.testing import CliRunner

import vpintegrator as vp


@pytest.fixture
def benchmark(script, compiler, monkeypatch):
    """The script with one case, few stages, and a small dataset that is there."""
    module = script("splittings")
    monkeypatch.setattr(module, "CASES", ("pendulum",))
    monkeypatch.setattr(module, "STAGES", (10,))
    monkeypatch.setattr(module, "WITH_COMMUTATORS", (3,))
    return module


def test_the_table_and_what_is_there_already(tmp_path, benchmark, monkeypatch):
    vp.generate("pendulum", tmp_path / "pendulum.h5", count=30, steps=10)
    arguments = ["--folder", str(tmp_path), "--quick", "--markdown"]
    result = CliRunner().invoke(benchmark.main, arguments)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "pendulum-splittings.json").read_text())
    assert [row["stages"] for row in found["rows"]] == [10, 3]
    for row in found["rows"]:
        assert row["error"] < found["peers"]["blanes-moan-4"][0]
    assert found["rows"][0]["error"] < found["peers"]["blanes-moan-6"][0]
    monkeypatch.setattr(benchmark, "measure", None)
    again = CliRunner().invoke(benchmark.main, arguments)
    assert again.output.splitlines()[-3:] == result.output.splitlines()[-3:]
    assert "| pendulum |" in again.output
