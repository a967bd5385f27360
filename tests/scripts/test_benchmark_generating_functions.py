"""The benchmark of generating functions, on small datasets for an instant."""

import json
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

import vpintegrator as vp
from vpintegrator.errors import InputError

SMALL = {"count": 30, "steps": 10}
CASES = {
    "product-oscillator": SMALL,
    "a map": {"system": "henon-map"} | SMALL,
}


@pytest.fixture
def benchmark(script, compiler, monkeypatch):
    """The script with small cases, couplings that are not trained, and no heyoka."""
    module = script("generating_functions")

    def couplings(data):
        if data.system.is_discrete:
            raise InputError("there are none")
        name = vp.models.suited(data.system)
        model = vp.models.build(
            data.system, name, {"functions": "polynomial", "degree": 3, "depth": 1}
        )
        return SimpleNamespace(model=model, error=0.5)

    peers = script("maps_peers")
    monkeypatch.setattr(peers, "taylor", lambda *arguments: lambda states: states)
    monkeypatch.setattr(module, "couplings", couplings)
    monkeypatch.setattr(module, "CASES", CASES)
    monkeypatch.setattr(module, "TRAJECTORIES", 16)
    return module


def test_the_table(tmp_path, benchmark):
    arguments = ["--folder", str(tmp_path), "--quick", "--markdown"]
    result = CliRunner().invoke(benchmark.main, arguments)
    assert result.exit_code == 0, result.output
    found = {
        name: json.loads((tmp_path / f"{name}-generating-functions.json").read_text())
        for name in CASES
    }
    oscillator = found["product-oscillator"]
    assert oscillator["model"] == "sgf"
    assert oscillator["validation"] < 1e-6 and oscillator["test"] < 1e-6
    assert oscillator["couplings"] == 0.5 and oscillator["gauss-legendre-6"] < 1e-3
    assert 0 < oscillator["seconds"] < 60
    assert oscillator["cost"].keys() == {"solved", "couplings", "gauss-legendre-6", "heyoka"}
    assert all(cost > 0 for cost in oscillator["cost"].values())
    of_map = found["a map"]
    assert of_map["validation"] < 1e-10  # quadratic, as its generating function
    assert of_map["couplings"] is None and of_map["gauss-legendre-6"] is None
    assert of_map["cost"].keys() == {"solved"}
    assert f"| {oscillator['validation']:.1e} |" in result.output
    assert "Generating functions by linear solves" in result.output
