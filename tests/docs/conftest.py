"""What builds the site, as modules, for tests."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def site(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "site")
    return importlib.import_module
