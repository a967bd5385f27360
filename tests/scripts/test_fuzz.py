"""Damaged files are read, or refused in a sentence."""

import importlib
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def fuzz(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module("fuzz")


@pytest.mark.parametrize(
    "name", ["dataset", "model", "rollout", "system", "recipe", "arrays", "table"]
)
def test_damaged_files(fuzz, tmp_path, name):
    assert name in fuzz.KINDS
    failures = [
        text for _, text in fuzz.run(name, 12, 0, tmp_path) if text not in ("read", "refused")
    ]
    assert not failures, failures[0]


def test_a_reader_that_fails_is_found(fuzz, tmp_path):
    def fails(path):
        raise KeyError(path)

    assert "KeyError" in fuzz.outcome(fails, tmp_path)
    assert fuzz.outcome(lambda path: None, tmp_path) == "read"
