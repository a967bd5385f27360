"""Families over steps and parameters."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import vpintegrator as vp
from vpintegrator.cli import plot, rollout
from vpintegrator.data import ExtendedDataset
from vpintegrator.errors import InputError


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "family.h5"
    vary = {"step": [0.01, 0.3], "g": [0.8, 1.2]}
    data = vp.generate("pendulum", path, count=300, steps=1, vary=vary)
    sizes = {"functions": "polynomial", "degree": 4, "depth": 3}
    model = vp.models.build(ExtendedDataset(data).system, **sizes)
    vp.train(model, data, epochs=80, progress=False, compiled=False)
    return model


@pytest.fixture
def sweep(model):
    return vp.rollout.parameter_sweep(
        model,
        ["rk4", "stoermer-verlet"],
        parameters={"step": [0.1, 0.2], "g": 1.1},
        time=2.0,
        trajectories=2,
        compiled=False,
    )


@pytest.mark.thorough
def test_is_what_comparisons_say(model, sweep):
    assert list(sweep.methods) == ["spff", "rk4", "stoermer-verlet"] and sweep.learned == ["spff"]
    np.testing.assert_array_equal(sweep.parameters["step"], [0.1, 0.2])
    np.testing.assert_array_equal(sweep.parameters["g"], [1.1, 1.1])
    for n, step in enumerate((0.1, 0.2)):
        single = model.at(step=step, g=1.1)
        report = vp.compare(single, "rk4", time=2.0, trajectories=2, compiled=False)
        assert sweep.values["median_error"][n, 0] == report.summary("spff").error
        assert sweep.values["worst_error"][n, 1] == report.summary("rk4").worst_error
    assert sweep.values["volume_error"][:, 0].max() < 1e-12
    assert len(sweep.table()) == 6 and sweep.table()[0]["method"] == "spff"
    frame = sweep.to_frame()
    np.testing.assert_array_equal(
        frame[frame.method == sweep.methods["rk4"]].median_error,
        sweep.values["median_error"][:, 1],
    )


def test_a_file_holds_it_whole(sweep, tmp_path):
    path = tmp_path / "sweep.h5"
    sweep.save(path)
    again = vp.rollout.open_parameter_sweep(path)
    assert again.table() == sweep.table()
    with pytest.raises(InputError, match="exists"):
        sweep.save(path)
    names = {p.name for p in vp.draw(path, tmp_path / "figures", formats=["png"])}
    assert names == {"sweep.png", "table.csv", "captions.md"}


def test_others_are_none(tmp_path):
    path = tmp_path / "data.h5"
    vp.generate("pendulum", path, count=3, steps=1)
    with pytest.raises(InputError):
        vp.rollout.open_parameter_sweep(path)


@pytest.mark.thorough
def test_the_command(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vp.save(model, "family.safetensors")
    run = CliRunner().invoke
    few = ["--time", "1", "--trajectories", "2", "--against", "rk4", "--compiled", "no"]
    result = run(rollout.main, ["family.safetensors", "--step", "0.1,0.2", "-p", "g=0.9,1.1", *few])
    assert result.exit_code == 0, result.output
    assert "pendulum-sweep.h5" in result.output
    result = run(plot.main, ["pendulum-sweep.h5", "--format", "png", "--json"])
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)["table"]) == 8
    result = run(rollout.main, ["family.safetensors", "--step", "0.15", "-p", "g=0.9", *few])
    assert result.exit_code == 0, result.output
    report = vp.open_rollout("pendulum-rollout.h5")
    assert report.step == 0.15 and report.system.parameters["g"] == 0.9


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "name it by --step"),
        (["--step", "0.1,0.2", "--resume"], "leave out --resume"),
        (["--step", "0.1,0.2", "--every", "2"], "--every: not for several"),
        (["--step", "long"], "expected numbers"),
        (["--step", "0.1", "-p", "g=heavy"], "expected a number"),
        (["--step", "0.1", "-p", "h=1"], "h is no condition"),
    ],
)
def test_mistakes_are_told(model, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    vp.save(model, "family.safetensors")
    result = CliRunner().invoke(rollout.main, ["family.safetensors", *arguments])
    assert result.exit_code == 2 and message in result.output
