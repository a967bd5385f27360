"""The accuracy benchmark, run for an instant."""

import importlib.util
from pathlib import Path

from click.testing import CliRunner

PATH = Path(__file__).parent.parent.parent / "scripts" / "benchmark_accuracy.py"


def load():
    spec = importlib.util.spec_from_file_location("benchmark_accuracy", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["--seconds", "0.5", "--steps", "1000", "--only", "vpff,published,vpff-adam"]
    result = CliRunner().invoke(load().main, arguments)
    assert result.exit_code == 0, result.output
    table = (tmp_path / "accuracy.md").read_text()
    rows = [line for line in table.splitlines() if line.startswith(("| vpff", "| published"))]
    assert [row.split("|")[2].strip() for row in rows] == ["576", "180", "576"]
    assert "change, 1,000 steps" in table
    assert [path.name for path in tmp_path.iterdir()] == ["accuracy.md"]


def test_mistakes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(load().main, ["--only", "vpf"])
    assert result.exit_code == 2
    assert "'vpf' is none of vpff" in result.output
