"""The worked examples, run for an instant."""

import importlib
from pathlib import Path

import pytest
from click.testing import CliRunner

SCRIPTS = Path(__file__).parent.parent.parent / "scripts"


@pytest.fixture
def script(tmp_path, monkeypatch):
    """A script as a module, in an empty folder."""
    monkeypatch.syspath_prepend(SCRIPTS)
    monkeypatch.chdir(tmp_path)
    return importlib.import_module


def test_compare_attention(script, tmp_path):
    example = script("compare_attention")
    result = CliRunner().invoke(example.main, ["--seeds", "1", "--iterations", "12", "-o", "out"])
    assert result.exit_code == 0, result.output
    for mechanism in ("none", "skew", "arbitrary", "coupled"):
        assert mechanism in result.output
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {f"{n}.{k}" for n in ("predictions", "training_errors") for k in ("png", "pdf")}


def test_without_attention_sine_and_cosine_cannot_be_told_apart(script):
    """The present value alone leaves an error of sin(0.1); attention goes below it."""
    example = script("compare_attention")
    blind = example.train("none", 2, 0, 40)
    seeing = example.train("coupled", 2, 0, 40)
    assert blind.training_error[-1] > 0.09
    assert seeing.training_error[-1] < 0.03
    assert seeing.log_determinant < 1e-12


def test_digits_stiefel(script, tmp_path):
    pytest.importorskip("sklearn")
    example = script("digits_stiefel")
    options = ["--seeds", "1", "--epochs", "1", "--depth", "1", "--processes", "1", "-o", "out"]
    result = CliRunner().invoke(example.main, options)
    assert result.exit_code == 0, result.output
    assert "Stiefel" in result.output
    assert (tmp_path / "out" / "learning_curves.png").stat().st_size > 10_000
