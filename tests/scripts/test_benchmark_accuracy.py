"""The accuracy benchmark, run for an instant."""

import importlib
from pathlib import Path

import pytest
from click.testing import CliRunner

SCRIPTS = Path(__file__).parent.parent.parent / "scripts"


@pytest.fixture
def benchmark(tmp_path, monkeypatch):
    """The script as a module, in an empty folder."""
    monkeypatch.syspath_prepend(SCRIPTS)
    monkeypatch.chdir(tmp_path)
    return importlib.import_module("benchmark_accuracy")


def test_the_table(tmp_path, benchmark):
    arguments = ["--seconds", "0.5", "--steps", "1000", "--only", "vpff,published,vpff-adam"]
    result = CliRunner().invoke(benchmark.main, arguments)
    assert result.exit_code == 0, result.output
    table = (tmp_path / "accuracy.md").read_text()
    rows = [line for line in table.splitlines() if line.startswith(("| vpff", "| published"))]
    assert [row.split("|")[2].strip() for row in rows] == ["576", "180", "576"]
    assert "change, 1,000 steps" in table
    assert [path.name for path in tmp_path.iterdir()] == ["accuracy.md"]


def test_mistakes(benchmark):
    result = CliRunner().invoke(benchmark.main, ["--only", "vpf"])
    assert result.exit_code == 2
    assert "'vpf' is none of vpff" in result.output
