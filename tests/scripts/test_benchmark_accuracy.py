"""The accuracy benchmark, run for an instant."""

import math

import pytest
import torch
from click.testing import CliRunner

import vpintegrator as vp


@pytest.fixture
def benchmark(script, tmp_path, monkeypatch):
    """The script as a module, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return script("accuracy")


def table(path):
    """Cells of the rows of the Markdown table."""
    lines = [line for line in path.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table(tmp_path, benchmark):
    arguments = ["--seconds", "0.5", "--steps", "1000", "--only", "vpff,published,vpff-adam"]
    result = CliRunner().invoke(benchmark.main, arguments)
    assert result.exit_code == 0, result.output
    assert [path.name for path in tmp_path.iterdir()] == ["accuracy.md"]
    header, _, *rows = table(tmp_path / "accuracy.md")
    assert "at 1,000 steps" in header
    assert [row[:2] for row in rows] == [
        ["vpff", "576"],
        ["published", "180"],
        ["vpff-adam", "576"],
    ]
    ratios = [float(row[3].replace(",", "")) for row in rows]
    errors = [float(row[2]) for row in rows]
    assert ratios[0] == 1  # the best of ours, even where a peer is better after an instant
    assert ratios == pytest.approx([error / errors[0] for error in errors], rel=0.1, abs=0.1)
    again = CliRunner().invoke(benchmark.main, arguments)
    assert again.exit_code == 2 and "--overwrite" in again.output


@pytest.mark.parametrize("name", ["volnet", "volnet-p"])
def test_strupnet_as_an_integrator(tmp_path, benchmark, name):
    """Whatever its layers, it is the peer's own map, in double precision, and keeps volume."""
    pytest.importorskip("strupnet")
    dataset = vp.generate("rigid-body", tmp_path / "few.h5", count=20)
    torch.set_default_dtype(torch.float32)
    model = benchmark.ENTRIES[name].make(dataset)
    assert torch.get_default_dtype() == torch.float32
    assert all(parameter.dtype == torch.float64 for parameter in model.parameters())
    layers = model.core.net.layer_list
    assert {layer.method for layer in layers} == {"P" if name == "volnet-p" else "R"}
    state = torch.tensor([0.3, -0.5, 0.8], dtype=torch.float64)
    assert torch.equal(model(state[None])[0], model.core.net(state, dataset.step))
    jacobian = torch.func.jacrev(lambda z: model(z[None])[0])(state)
    assert math.isclose(torch.linalg.det(jacobian).item(), 1.0, abs_tol=1e-12)
    assert vp.train(model, dataset, optimizer="adam", epochs=2).test_error < 1
