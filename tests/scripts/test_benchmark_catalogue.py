"""The benchmark over the catalogue, on one system for a second."""

import importlib
import json
import math
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from vpintegrator.errors import InputError

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
        "vpff", "stoermer-verlet", "rk4", "gauss-legendre-4", "gauss-legendre-6", "blanes-moan-4",
        "blanes-moan-6",
    }  # fmt: skip
    error, rk4 = (found["rollout"][name]["RMSE"] for name in ("vpff", "rk4"))
    assert 0 < error < 1
    assert f"{found['training']['test_error']:.1e}" in output
    assert f"{error / rk4:.2g}" in output

    assert found["model"] == "vpff"
    assert output.splitlines()[-1].startswith(f"vpff: below RK4 on {int(error < rk4)} of 1")

    monkeypatch.setattr(benchmark, "measure", None)  # what is there is not done again
    figure = tmp_path / "catalogue.png"
    again = run(benchmark, tmp_path, *options, "vpff", "--figure", str(figure))
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert again.splitlines()[-1] == output.splitlines()[-1]


def result(entry, systems, diverged=0, **errors):
    rows = {
        name.replace("_", "-"): {"RMSE": error, "diverged": 0} for name, error in errors.items()
    }
    rows[entry]["diverged"] = diverged
    return [{"system": system, "entry": entry, "rollout": rows} for system in systems]


def test_what_counts_as_below_and_as_failed(benchmark, capsys):
    names = ["a", "b", "c", "d", "e", "f"]
    best = {"rk4": 2e-3, "gauss_legendre_4": 2e-4, "blanes_moan_4": math.nan}
    results = [
        *result("default", ["a"], default=1e-4, **best),
        *result("default", ["b"], default=1e-3, **best),
        *result("default", ["c"], default=1e-5, stoermer_verlet=1e-6, **best),
        *result("default", ["d"], default=math.inf, **best),
        *result("default", ["e"], diverged=9, default=1e-9, **best),
    ]
    benchmark.report_counts(results, names, ["default"])
    assert capsys.readouterr().out == (
        "default: below RK4 on 3 of 6, below Gauss-Legendre 4 on 2, below all on 1; "
        "failed: d, e; not measured: f\n"
    )


def test_mistakes(tmp_path, benchmark):
    for option, value in (("--systems", "pendulumm"), ("--entries", "vpff,vpt")):
        arguments = ["--folder", str(tmp_path), option, value]
        result = CliRunner().invoke(benchmark.main, arguments)
        assert result.exit_code == 2
        assert f"{option}: '{value.split(',')[-1]}' is none of" in result.output
    figure = tmp_path / "catalogue.jpeg"
    with pytest.raises(InputError, match=r"figures end in \.png"):
        benchmark.draw([], figure)
