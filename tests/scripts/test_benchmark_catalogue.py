"""The benchmark over the catalogue, on one system for a second."""

import importlib
import json
import math
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

SCRIPTS = Path(__file__).parents[2] / "scripts" / "benchmarks"


@pytest.fixture
def benchmark(tmp_path, monkeypatch):
    """The script as a module; systems are measured in this process."""
    monkeypatch.syspath_prepend(SCRIPTS)
    sys.modules.pop("catalogue", None)
    module = importlib.import_module("catalogue")
    monkeypatch.setattr(module, "STEPS", 5)
    monkeypatch.setattr(module.time, "perf_counter", module.time.perf_counter)  # given back
    monkeypatch.setattr(module.multiprocessing, "get_context", lambda _: InProcess)
    return module


class InProcess:
    """A process that is none."""

    exitcode = 0

    class Process:
        def __init__(self, target, args):
            self.start = lambda: target(*args)
            self.exitcode = 0

        def join(self, timeout=None):
            pass

        def is_alive(self):
            return False

        kill = join


def run(benchmark, folder, *options):
    arguments = ["--folder", str(folder), "--seconds", "1", *options]
    result = CliRunner().invoke(benchmark.main, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_system_and_what_is_there_already(tmp_path, benchmark, monkeypatch):
    options = ["--systems", "harmonic-oscillator", "--entries"]
    output = run(benchmark, tmp_path, *options, "vpff")
    path = tmp_path / "harmonic-oscillator-vpff.json"
    found = json.loads(path.read_text())
    assert found["arguments"]["depth"] == 3
    assert set(found["rollout"]) == {
        "vpff", "stoermer-verlet", "rk4", "gauss-legendre-4", "blanes-moan-4",
    }  # fmt: skip
    error, rk4 = (found["rollout"][name]["RMSE"] for name in ("vpff", "rk4"))
    assert 0 < error < 1
    assert f"{found['training']['test_error']:.1e}" in output
    assert f"{error / rk4:.2g}" in output

    # another entry, without an RMSE as small, is added; what is there is not done again
    text = path.read_text()
    wins = {**found, "entry": "vpt-3-1", "rollout": dict(found["rollout"])}
    wins["rollout"]["vpt-3-1"] = {**wins["rollout"].pop("vpff"), "RMSE": 2 * error}
    (tmp_path / "harmonic-oscillator-vpt-3-1.json").write_text(json.dumps(wins))
    fails = {"system": "harmonic-oscillator", "entry": "vpt-2-1", "seconds": 1.0}
    fails |= {"failure": "it does not fit"}
    (tmp_path / "harmonic-oscillator-vpt-2-1.json").write_text(json.dumps(fails))
    monkeypatch.setattr(benchmark, "measure", None)
    output = run(benchmark, tmp_path, *options, "vpff,vpt-3-1,vpt-2-1")
    assert path.read_text() == text
    assert "harmonic-oscillator, vpt-2-1: it does not fit" in output
    lines = [line.split() for line in output.splitlines()]
    assert ["vpff", "1", "1", "1"] in lines
    assert ["vpt-3-1", "0", "2", "2"] in lines
    assert math.isfinite(error)


def test_mistakes(tmp_path, benchmark):
    for option, value in (("--systems", "pendulumm"), ("--entries", "vpff,vpt")):
        arguments = ["--folder", str(tmp_path), option, value]
        result = CliRunner().invoke(benchmark.main, arguments)
        assert result.exit_code == 2
        assert f"{option}: '{value.split(',')[-1]}' is none of" in result.output
