"""The comparison and its file."""

import json
import math

import h5py
import numpy as np
import pytest
import torch
import xarray

import vpintegrator as vp
from tests.rollout.systems import BLOW_UP, initial, system
from vpintegrator.dynamics import load_system
from vpintegrator.errors import InputError
from vpintegrator.models import VolumePreservingFeedForward, VolumePreservingTransformer


def trained(model, name="rigid-body", step=0.2):
    """A model that says what it was trained on, though it was not."""
    s = system(name)
    model.metadata = {
        "system": s.text,
        "system_name": s.name,
        "parameters": json.dumps(s.parameters),
        "step": repr(step),
    }
    return model


@pytest.fixture(scope="module")
def report():
    torch.manual_seed(0)
    models = [
        trained(VolumePreservingTransformer(dim=3, window=3, prediction_window=2)),
        trained(VolumePreservingFeedForward(dim=3)),
        trained(VolumePreservingFeedForward(dim=3, depth=1)),
    ]
    return vp.compare(models, steps=50, trajectories=3, seed=7)


def test_a_comparison(report):
    assert list(report.runs) == ["vpt", "vpff", "vpff-2", "implicit-midpoint", "rk4"]
    assert report.system.name == "rigid-body"
    assert report.step == 0.2
    assert np.allclose(report.times, 0.2 * np.arange(51))
    assert report.seed == 7
    z = system("rigid-body").sample_initial(3, np.random.default_rng(7))
    for run in report.runs.values():
        assert run.states.shape == report.reference.shape == (3, 51, 3)
        assert np.allclose(run.states[:, 0], z, atol=1e-15)
        assert run.log_determinant.shape == (3, len(run.volume_index))
        assert len(run.volume_index) > 10
        assert run.seconds_per_step > 0
    vpt = report.runs["vpt"]
    assert np.array_equal(vpt.states[:, :3], report.reference[:, :3])  # first window
    assert (np.diff(vpt.volume_index) == 2).all()
    assert np.abs(vpt.log_determinant).max() < 1e-12
    assert np.array_equal(report.runs["rk4"].states, vp.integrate(report.system, "rk4", z, 0.2, 50))
    assert report.reference_error.max() < 1e-11


def test_the_numbers_follow_from_the_states(report):
    states, reference = report.runs["rk4"].states, report.reference
    s = report.summary("rk4")
    rmse = np.sqrt(((states - reference) ** 2).mean(axis=(1, 2)))
    assert s.error == pytest.approx(np.median(rmse))
    assert s.worst_error == pytest.approx(rmse.max())
    distance = np.linalg.norm(states - reference, axis=-1)
    assert np.allclose(report.errors("rk4"), distance)
    assert s.final_error == pytest.approx(np.median(distance[:, -1]))
    energy = report.system.invariants["energy"](states)
    assert s.invariants["energy"] == pytest.approx(np.abs(energy / energy[:, :1] - 1).max())
    assert s.invariant_kinds == {"energy": "relative", "squared_momentum": "relative"}
    assert s.log_determinant == np.abs(report.runs["rk4"].log_determinant).max()
    assert (s.order, s.kind, s.diverged, s.trajectories) == (4, "classical", 0, 3)
    row = report.table()[-1]
    assert list(row) == [
        "method",
        "kind",
        "order",
        "RMSE",
        "worst RMSE",
        "final error",
        "energy error",
        "squared momentum error",
        "volume error",
        "time per step",
        "diverged",
    ]
    assert row["method"] == "RK4"
    assert row["RMSE"] == s.error


def test_a_file_and_back(report, tmp_path):
    path = tmp_path / "rollout.h5"
    report.save(path)
    again = vp.open_rollout(path)
    assert again.table() == report.table()
    assert again.seed == 7
    assert again.system.text == report.system.text
    assert again.system.parameters == report.system.parameters
    assert np.array_equal(again.times, report.times)
    assert np.array_equal(again.reference, report.reference)
    assert np.array_equal(again.reference_error, report.reference_error)
    assert list(again.runs) == list(report.runs)
    for name, run in report.runs.items():
        other = again.runs[name]
        for key in ("name", "kind", "method", "title", "description", "order", "window"):
            assert getattr(other, key) == getattr(run, key)
        assert other.prediction_window == run.prediction_window
        assert other.seconds_per_step == run.seconds_per_step
        assert np.array_equal(other.states, run.states)
        assert np.array_equal(other.volume_index, run.volume_index)
        assert np.array_equal(other.log_determinant, run.log_determinant)
    with pytest.raises(InputError, match="exists already"):
        report.save(path)
    report.save(path, overwrite=True)


def test_xarray_opens_the_file(report, tmp_path):
    path = tmp_path / "rollout.h5"
    report.save(path)
    with xarray.open_datatree(path, engine="h5netcdf") as tree:
        assert tree.attrs["format"] == "vpintegrator-rollout"
        state = tree["vpt/state"]
        assert state.dims == ("trajectory", "time", "component")
        assert list(state.component.values) == ["z1", "z2", "z3"]
        assert np.array_equal(state.values, report.runs["vpt"].states)
        volume = tree["rk4/log_determinant"]
        assert volume.dims == ("trajectory", "volume_time")
        assert np.allclose(volume.volume_time, report.times[report.runs["rk4"].volume_index])
        error = tree["vpt"].to_dataset().state - tree["reference"].to_dataset().state
        assert error.shape == (3, 51, 3)


def test_divergence_is_marked_and_survives_the_file(tmp_path):
    s = load_system(BLOW_UP)
    # the exact solution from x = -3 decays; explicit Euler with h = 0.5 does not follow it
    report = vp.compare(
        None,
        ["explicit-euler", "implicit-midpoint"],
        system=s,
        initial=[[-3.0, 1.0], [-1.0, 1.0]],
        step=0.5,
        steps=60,
    )
    path = tmp_path / "rollout.h5"
    report.save(path)
    for r in (report, vp.open_rollout(path)):
        euler = r.runs["explicit-euler"]
        assert euler.diverged == 1
        assert euler.failures[1] == -1
        assert np.isnan(euler.states[0, euler.failures[0] :]).all()
        summary = r.summary("explicit-euler")
        assert summary.worst_error == math.inf
        assert summary.diverged == 1
        assert r.table()[0]["diverged"] == 1
        assert r.summary("implicit-midpoint").diverged == 0
    with h5py.File(path) as f:
        times = f["explicit-euler/divergence_time"][...]
        assert times[0] == report.times[report.runs["explicit-euler"].failures[0]]
        assert np.isnan(times[1])


def test_how_long_and_how_many():
    s = system("pendulum")

    def compare(**arguments):
        return vp.compare(None, "rk4", system=s, trajectories=1, **arguments)

    assert len(compare(time=2.0).times) == 11
    assert len(compare(time=2.05).times) == 11  # the nearest whole number of steps
    assert len(compare(steps=1).times) == 2
    assert compare(time=1.0, step=0.1).times[-1] == pytest.approx(1.0)
    assert len(compare(steps=3).reference) == 1
    assert np.array_equal(compare(steps=3, seed=1).reference, compare(steps=3, seed=1).reference)
    assert compare(steps=3, initial=initial("pendulum", 2)).seed is None


def test_a_rollout_shorter_than_the_window():
    model = trained(VolumePreservingTransformer(dim=3, window=5))
    report = vp.compare(model, ["rk4"], steps=2, trajectories=2)
    assert report.runs["vpt"].states.shape == (2, 3, 3)
    assert report.runs["vpt"].log_determinant.shape == (2, 0)
    assert report.summary("vpt").log_determinant is None


def test_named_models_and_progress(tmp_path):
    seen = []
    model = trained(VolumePreservingFeedForward(dim=3))
    report = vp.compare(
        {"mine": model},
        ["rk4"],
        steps=10,
        trajectories=1,
        progress=lambda *call: seen.append(call),
    )
    assert list(report.runs) == ["mine", "rk4"]
    assert list(dict.fromkeys(name for name, _, _ in seen)) == ["reference", "mine", "rk4"]
    assert all(done <= total for _, done, total in seen)


def other_parameters():
    model = trained(VolumePreservingFeedForward(dim=3))
    model.metadata["parameters"] = json.dumps({"I1": 5.0, "I2": 1.0, "I3": 2.0})
    return model


RIGID = trained(VolumePreservingFeedForward(dim=3))


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        (None, {}, "give the system"),
        (None, {"system": "pendulum", "against": []}, "nothing to compare"),
        (None, {"system": "pendulum", "against": ["rk5"]}, "did you mean 'rk4'"),
        (None, {"system": "rigid-body", "against": ["stoermer-verlet"]}, "vector field"),
        (None, {"system": "rigid-bdy"}, "rigid-body"),
        (None, {"system": "pendulum", "time": 1.0, "steps": 3}, "either time or steps"),
        (None, {"system": "pendulum", "time": -1.0}, "time = -1"),
        (None, {"system": "pendulum", "time": 0.01}, "at least one step"),
        (None, {"system": "pendulum", "steps": 0}, "steps = 0"),
        (None, {"system": "pendulum", "steps": 2.5}, "steps = 2.5"),
        (None, {"system": "pendulum", "step": -0.1}, "step = -0.1"),
        (None, {"system": "pendulum", "trajectories": 0}, "trajectories = 0"),
        (None, {"system": "pendulum", "initial": [[1.0]]}, r"\(trajectory, 2\)"),
        (RIGID, {"step": 0.1}, "trained for the step 0.2"),
        (RIGID, {"system": "pendulum"}, "dim = 3"),
        (VolumePreservingFeedForward(dim=3), {}, "which system"),
        ([RIGID, other_parameters()], {}, "different systems or parameters"),
        ({"a": RIGID, "b": trained(VolumePreservingFeedForward(dim=3), step=0.3)}, {}, "model b"),
        ({"rk4": RIGID}, {}, "both named 'rk4'"),
        ({"reference": RIGID}, {}, "cannot be named"),
        ({"a/b": RIGID}, {}, "cannot be named"),
    ],
)
def test_wrong_arguments(model, arguments, message):
    with pytest.raises(InputError, match=message):
        vp.compare(model, **({"steps": 3} if "time" not in arguments else {}) | arguments)


def test_files_that_are_no_rollouts(tmp_path, report):
    with pytest.raises(InputError, match="no file"):
        vp.open_rollout(tmp_path / "none.h5")
    text = tmp_path / "text.h5"
    text.write_text("hello")
    with pytest.raises(InputError, match="not an HDF5 file"):
        vp.open_rollout(text)
    damaged = tmp_path / "damaged.h5"
    report.save(damaged)
    with h5py.File(damaged, "a") as f:
        del f["rk4/state"]
    with pytest.raises(InputError, match="damaged"):
        vp.open_rollout(damaged)
    with pytest.raises(InputError, match="has no method 'rk5'"):
        report.errors("rk5")
