"""scripts/compatibility: what it would try is there."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "compatibility"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def script():
    loader = SourceFileLoader("compatibility", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def test_the_tests_it_runs_are_there(script):
    for name in (*script.WITHOUT_TORCH, *script.WITH_TORCH):
        assert (ROOT / name).is_file(), name


def test_it_knows_the_pythons_and_the_dependencies(script):
    lines = [line for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert tuple(line.rpartition(" ")[2] for line in lines) == script.PYTHONS
    names = {script.name_of(text): text for text in PROJECT["dependencies"]}
    assert script.wanted_torch(names, True) == names["torch"].partition(">=")[2]
    assert f"torch=={script.wanted_torch(names, False)}\n" in script.CONSTRAINTS.read_text()


def test_what_runs_without_pytorch_does_not_import_it(script):
    code = "import sys, pytest; sys.modules['torch'] = None; sys.exit(pytest.main(sys.argv[1:]))"
    options = ["--collect-only", "-p", "no:cacheprovider"]
    command = [sys.executable, "-c", code, *options, *script.WITHOUT_TORCH]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
