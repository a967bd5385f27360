"""The worked examples run from end to end; what they measure is for their full settings."""

import importlib
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(SCRIPTS)

    def run(script, *arguments):
        main = importlib.import_module(script).main
        return CliRunner().invoke(main, [*arguments, "-o", str(tmp_path / "figures")])

    return run


def test_compare_attention(run, tmp_path):
    settings = ["--seeds", "1", "--iterations", "4"]
    result = run("compare_attention", *settings)
    assert result.exit_code == 0, result.output
    for mechanism in ("none", "skew", "coupled", "arbitrary"):
        assert result.output.count(f" {mechanism} ") == 2
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        *("predictions.png", "predictions.pdf", "training_errors.png", "training_errors.pdf")
    }
    assert run("compare_attention", *settings).exit_code == 2  # nothing is replaced unasked
    assert "Usage" in run("compare_attention", "--help").output


def test_attention_tells_sine_from_cosine_and_no_attention_cannot(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    example = importlib.import_module("compare_attention")
    none, coupled = (example.train(mechanism, 2, 0, 30) for mechanism in ("none", "coupled"))
    # the least error of any function of the present value is sin(step)
    assert none.training_error[-1] == pytest.approx(0.0998, abs=2e-3)
    assert coupled.training_error[-1] < 0.02
    assert coupled.model.middle.volume_preserving and coupled.log_determinant < 1e-12


def test_digits_stiefel(run, tmp_path):
    pytest.importorskip("sklearn")
    result = run(
        "digits_stiefel",
        *("--seeds", "2", "--epochs", "1", "--depth", "1", "--processes", "1"),
    )
    assert result.exit_code == 0, result.output
    for weights in ("Glorot", "orthonormal", "Stiefel"):
        assert result.output.count(f" {weights} ") >= 2
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        *("learning_curves.png", "learning_curves.pdf")
    }


def test_digits_without_scikit_learn(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    result = run("digits_stiefel")
    assert result.exit_code == 2
    assert "pip install scikit-learn" in result.output
