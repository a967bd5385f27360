"""The comparison and its file."""

import dataclasses
import math

import h5py
import numpy as np
import pytest
import torch
import xarray

import vpintegrator as vp
from tests.rollout.systems import BLOW_UP, system
from vpintegrator.dynamics import load_system
from vpintegrator.errors import InputError
from vpintegrator.models import VolumePreservingFeedForward, VolumePreservingTransformer


def trained(model, name="rigid-body", step=0.2):
    """A model that says what it was trained on, though it was not."""
    model.origin = vp.models.Origin(system(name), step)
    return model


@pytest.fixture(scope="module")
def report():
    torch.manual_seed(0)
    models = [
        trained(VolumePreservingTransformer(dim=3, window=3)),
        trained(VolumePreservingFeedForward(dim=3)),
        trained(VolumePreservingFeedForward(dim=3, depth=1)),
    ]
    return vp.compare(models, steps=50, trajectories=3, seed=7, compiled=False)


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
        step = run.volume["step"]
        assert step.log_determinant.shape == (3, len(step.times))
        assert len(step.times) > 40
        assert run.volume["phase-space"].log_determinant.shape[0] == 3
    vpt = report.runs["vpt"]
    assert np.array_equal(vpt.states[:, :3], report.reference[:, :3])  # first window
    assert vpt.volume["step"].times[0] == pytest.approx(0.4)  # the end of the first window
    assert vpt.volume["step"].largest < 1e-12
    assert (vpt.structure.form, vpt.structure.space) == ("volume", "windows")
    assert np.array_equal(report.runs["rk4"].states, vp.integrate(report.system, "rk4", z, 0.2, 50))
    assert report.reference_error.max() < 1e-11


def test_what_is_kept_is_thinned_and_what_is_measured_is_not():
    options = {"system": "pendulum", "trajectories": 3, "steps": 47, "seed": 2}
    whole = vp.compare(None, ["rk4", "heun"], **options)
    thin = vp.compare(None, ["rk4", "heun"], every=10, **options)
    index = [0, 10, 20, 30, 40, 47]
    assert thin.every == 10
    np.testing.assert_array_equal(thin.times, whole.times[index])
    np.testing.assert_array_equal(thin.reference, whole.reference[:, index])
    for name, run in thin.runs.items():
        other = whole.runs[name]
        np.testing.assert_array_equal(run.states, other.states[:, index])
        np.testing.assert_array_equal(run.root_mean_square_error, other.root_mean_square_error)
        assert run.error.max() == other.error.max()
        assert run.error[0, 2] == other.error[0, 11:21].max()
        first, second = run.invariants["energy"], other.invariants["energy"]
        np.testing.assert_array_equal(first.largest, second.largest)
        np.testing.assert_array_equal(first.drift.slope, second.drift.slope)
        np.testing.assert_array_equal(run.threshold_time, other.threshold_time)


def test_the_reference_may_end_early():
    options = {"system": "pendulum", "trajectories": 2, "steps": 40, "threshold": 1e-3}
    report = vp.compare(None, ["heun"], reference_time=4.1, **options)
    run, whole = report.runs["heun"], vp.compare(None, ["heun"], **options).runs["heun"]
    assert report.reference.shape == (2, 21, 2)  # 4.1 is nearest to 20 steps of 0.2
    assert repr(report).endswith("2 trajectories to t = 8, errors to t = 4>")
    np.testing.assert_allclose(run.error[:, :21], whole.error[:, :21], rtol=1e-6)
    assert np.isnan(run.error[:, 21:]).all()
    np.testing.assert_array_equal(run.states, whole.states)
    none = vp.compare(None, ["heun"], reference_time=0, **options)
    assert none.reference.shape == (2, 1, 2)
    assert none.summary("heun").error == 0


def test_the_table_is_a_frame(report):
    frame = report.to_frame()
    assert list(frame.index) == [row["method"] for row in report.table()]
    assert list(frame.columns) == list(report.table()[0])[1:]
    worst = [row["worst RMSE"] for row in report.table()]
    assert list(frame["worst RMSE"]) == worst


def same(first, second):
    """Two values are equal, arrays and dataclasses in them too."""
    if dataclasses.is_dataclass(first):
        return all(
            same(getattr(first, f.name), getattr(second, f.name))
            for f in dataclasses.fields(first)
            if f.compare
        )
    if isinstance(first, dict):
        return list(first) == list(second) and all(same(first[k], second[k]) for k in first)
    if isinstance(first, np.ndarray):
        return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
    if isinstance(first, vp.System):
        return first.text == second.text and first.parameters == second.parameters
    return first == second or (first != first and second != second)


def test_everything_that_can_be_measured_goes_through_the_file(tmp_path):
    report = vp.compare(
        None,
        ["stoermer-verlet", "rk4"],
        system="coupled-oscillators",
        steps=60,
        every=7,
        trajectories=3,
        section="q[0] = 0.1",
        work_precision=True,
    )
    run = report.runs["stoermer-verlet"]
    assert run.section is not None
    assert run.lyapunov is not None
    assert run.symplecticity < 1e-13
    assert list(report.work_precision) == ["stoermer-verlet", "rk4"]
    path = tmp_path / "rollout.h5"
    report.save(path)
    assert same(report, vp.open_rollout(path))


def test_xarray_opens_the_file(report, tmp_path):
    path = tmp_path / "rollout.h5"
    report.save(path)
    with xarray.open_datatree(path, engine="h5netcdf") as tree:
        assert tree.attrs["format"] == "vpintegrator-rollout"
        state = tree["vpt/state"]
        assert state.dims == ("trajectory", "time", "component")
        assert list(state.component.values) == ["z1", "z2", "z3"]
        assert np.array_equal(state.values, report.runs["vpt"].states)
        volume = tree["rk4/step_log_determinant"]
        assert volume.dims == ("step_trajectory", "step_time")
        assert np.array_equal(volume.step_time, report.runs["rk4"].volume["step"].times)
        change = tree["rk4/invariant_energy"]
        assert change.dims == ("trajectory", "time")
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
        assert np.isfinite(euler.failure_time).tolist() == [True, False]
        assert np.isnan(euler.states[0, report.times >= euler.failure_time[0]]).all()
        # it is lost before it overflows, and the file says so
        assert 0 < r.divergence_time("explicit-euler")[0] <= euler.failure_time[0]
        summary = r.summary("explicit-euler")
        assert summary.worst_error == math.inf
        assert summary.diverged == r.table()[0]["diverged"] == 1
        assert r.summary("implicit-midpoint").diverged == 0
    with h5py.File(path) as f:
        times = report.divergence_time("explicit-euler")
        np.testing.assert_array_equal(f["explicit-euler/divergence_time"], times)


def other_parameters():
    model = trained(VolumePreservingFeedForward(dim=3))
    other = model.system.with_parameters({"I1": 5.0, "I2": 1.0, "I3": 2.0})
    model.origin = vp.models.Origin(other, model.step)
    return model


RIGID = trained(VolumePreservingFeedForward(dim=3))


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        (None, {}, "give system"),
        (None, {"system": "pendulum", "against": []}, "nothing to compare"),
        (None, {"system": "pendulum", "against": ["heunn"]}, "did you mean 'heun'"),
        (None, {"system": "rigid-body", "against": ["stoermer-verlet"]}, "vector field"),
        (None, {"system": "pendulum", "time": 1.0, "steps": 3}, "either time or steps"),
        (None, {"system": "pendulum", "time": 0.01}, "at least one step"),
        (None, {"system": "pendulum", "section": "r=0"}, "no component 'r'"),
        (RIGID, {"step": 0.1}, "trained for the step 0.2"),
        (RIGID, {"system": "pendulum"}, "dim = 3"),
        (VolumePreservingFeedForward(dim=3), {}, "which system"),
        ([RIGID, other_parameters()], {}, "different systems or parameters"),
        (
            {"a": RIGID, "b": trained(VolumePreservingFeedForward(dim=3), step=0.3)},
            {},
            "b was trained",
        ),
        ({"rk4": RIGID}, {}, "cannot be named 'rk4', or two"),
        ({"a/b": RIGID}, {}, "cannot be named"),
    ],
)
def test_wrong_arguments(model, arguments, message):
    with pytest.raises(InputError, match=message):
        vp.compare(model, **({"steps": 3} if "time" not in arguments else {}) | arguments)
