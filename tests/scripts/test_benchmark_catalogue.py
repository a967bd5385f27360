"""The benchmark over the catalogue, on one system for a second."""

import json
import math

import pytest
from click.testing import CliRunner


@pytest.fixture
def benchmark(script, monkeypatch):
    """The script as a module; systems are measured in this process."""
    module = script("catalogue")
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


@pytest.mark.thorough
def test_a_system_and_what_is_there_already(tmp_path, benchmark, monkeypatch):
    options = ["--systems", "harmonic-oscillator"]
    output = run(benchmark, tmp_path, *options)
    found = json.loads((tmp_path / "harmonic-oscillator-default.json").read_text())
    assert {"default", "rk4", "dormand-prince-8"} < set(found["rollout"])
    assert found["rollout"]["default"]["RMSE"] < 1e-9 < found["rollout"]["rk4"]["RMSE"]
    assert "RMSE / RK4: below 1 on 1 of 1" in output
    assert output.splitlines()[-1] == "not measured: none"

    monkeypatch.setattr(benchmark, "measure", None)  # what is there is not done again
    figure = tmp_path / "catalogue.png"
    again = run(benchmark, tmp_path, *options, "--figure", str(figure))
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert again.splitlines()[-1] == output.splitlines()[-1]


def test_an_error_that_is_no_number_is_larger_than_all_others(benchmark):
    def below(own, **errors):
        rows = {name: {"RMSE": error} for name, error in ({"default": own} | errors).items()}
        return benchmark.is_below({"rollout": rows}, [*errors])

    assert below(1e-4, rk4=2e-3) and not below(1e-4, rk4=1e-5)
    assert below(1e-4, rk4=math.nan) and not below(math.nan, rk4=1.0)
    assert not below(math.inf, rk4=math.inf)
