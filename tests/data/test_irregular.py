"""Irregular times become pairs of neighbours, and columns become parameters."""

import tomllib

import h5py
import numpy as np
import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st

from vpintegrator.data import generate, import_dataset
from vpintegrator.errors import InputError

RANDOM = np.random.default_rng(0)
TIMES = np.cumsum(RANDOM.uniform(0.05, 0.3, (8, 30)), axis=1)
STATES = np.stack([np.cos(TIMES), -np.sin(TIMES)], axis=-1)


def turned(states, steps):
    """The exact solution of x' = v, v' = -x."""
    c, s = np.cos(steps), np.sin(steps)
    x, v = states.T
    return np.stack([c * x + s * v, -s * x + c * v], axis=-1)


def said(dataset):
    return " ".join(tomllib.loads(dataset.recipe)["imported"]["guessed"])


def all_pairs(dataset):
    """Origins, starts, steps and states of all groups together, in their order."""
    parts = []
    for group in dataset.shapes:
        origin, start = dataset.origins(group)
        parts.append((origin, start, dataset.conditions(group), dataset.states(group)))
    joined = [np.concatenate(part) for part in zip(*parts, strict=True)]
    order = np.lexsort((joined[1], joined[0]))
    return [part[order] for part in joined]


def test_irregular_times_become_pairs(tmp_path):
    dataset = import_dataset(STATES, tmp_path / "a.h5", times=TIMES)
    origin, start, conditions, states = all_pairs(dataset)
    assert states.shape == (8 * 29, 2, 2)
    steps = np.diff(TIMES, axis=1)
    np.testing.assert_array_equal(origin, np.repeat(np.arange(8), 29))
    np.testing.assert_array_equal(start, TIMES[:, :-1].ravel())
    np.testing.assert_array_equal(conditions[:, 0], steps.ravel())
    np.testing.assert_array_equal(states[:, 0], STATES[:, :-1].reshape(-1, 2))
    np.testing.assert_allclose(states[:, 1], turned(states[:, 0], conditions[:, 0]))
    assert dataset.varied == {"step": (steps.min(), steps.max())}
    assert "each pair of neighbours" in said(dataset) and "steps are from 0.05" in said(dataset)
    assert dataset.times("train").tolist() == [0, 1]
    with xarray.open_dataset(dataset.path, group="train", engine="h5netcdf") as data:
        assert "step" in data.coords and data.start.dims == ("trajectory",)


def test_all_pairs_of_a_trajectory_are_in_one_group(tmp_path):
    dataset = import_dataset(STATES, tmp_path / "a.h5", times=TIMES)
    numbers = [set(dataset.origins(group)[0].tolist()) for group in dataset.shapes]
    assert set.union(*numbers) == set(range(8)) and sum(map(len, numbers)) == 8


def test_few_trajectories_are_cut_in_time_and_groups_share_no_state(tmp_path):
    dataset = import_dataset(STATES[:2], tmp_path / "a.h5", times=TIMES[:2])
    seen = []
    for group in dataset.shapes:
        states = dataset.states(group).reshape(-1, 2)
        seen.append({tuple(state) for state in states.tolist()})
        assert set(dataset.origins(group)[0].tolist()) == {0, 1}
    assert not (seen[0] & seen[1] or seen[1] & seen[2] or seen[0] & seen[2])
    ends = [dataset.origins(group)[1] for group in dataset.shapes]
    assert ends[0].max() < ends[1].max() < ends[2].max()


@settings(max_examples=20, deadline=None)
@given(longest=st.floats(0.06, 1.0))
def test_no_step_is_longer_than_allowed(tmp_path_factory, longest):
    path = tmp_path_factory.mktemp("pairs") / "a.h5"
    dataset = import_dataset(STATES, path, times=TIMES, longest_step=longest)
    steps = all_pairs(dataset)[2]
    assert steps.max() <= longest
    gone = int((np.diff(TIMES, axis=1) > longest).sum())
    assert len(steps) == 8 * 29 - gone
    assert (f"longer than {longest:.6g}" in said(dataset)) == bool(gone)


def test_long_gaps_are_left_out_and_told(tmp_path):
    late = TIMES + 50.0 * (np.arange(30) > 14)
    dataset = import_dataset(STATES, tmp_path / "a.h5", times=late)
    assert sum(shape[0] for shape in dataset.shapes.values()) == 8 * 28
    assert dataset.varied["step"][1] < 0.3
    assert "--longest-step says how long they may be): 8 pairs" in said(dataset)
    with pytest.raises(InputError, match=r"every step is longer than 0\.01"):
        import_dataset(STATES, tmp_path / "b.h5", times=late, longest_step=0.01)


def test_states_that_are_missing_are_passed_over(tmp_path):
    states = STATES.copy()
    states[2, 5, 0] = np.nan
    options = {"times": TIMES, "missing": True, "irregular": "pairs"}
    dataset = import_dataset(states, tmp_path / "a.h5", **options)
    origin, start, conditions, pairs = all_pairs(dataset)
    assert len(pairs) == 8 * 29 - 1 and dataset.is_complete and np.isfinite(pairs).all()
    over = (origin == 2) & (start == TIMES[2, 4])
    np.testing.assert_allclose(conditions[over, 0], TIMES[2, 6] - TIMES[2, 4])


def test_regular_times_stay_as_they_are(tmp_path):
    times = 0.1 * np.arange(30)
    dataset = import_dataset(STATES, tmp_path / "a.h5", times=times)
    assert dataset.step == 0.1 and not dataset.is_family and dataset.origins("train") is None
    with pytest.raises(InputError, match=r"steps are not equal.*--irregular pairs"):
        import_dataset(STATES, tmp_path / "b.h5", times=np.round(np.arange(30) / 30, 3))
    with pytest.raises(InputError, match="--missing"):
        import_dataset(STATES[:, 1:], tmp_path / "b.h5", times=times[np.arange(30) != 7])


def test_pairs_of_equal_steps_are_an_ordinary_dataset(tmp_path):
    times = 0.1 * np.arange(30)
    dataset = import_dataset(STATES, tmp_path / "a.h5", times=times, irregular="pairs")
    assert dataset.step == 0.1 and not dataset.is_family
    assert dataset.attributes["format_version"] == 1
    origin, start = dataset.origins("test")
    assert len(origin) == len(start) == dataset.shapes["test"][0]


def write_table(path, columns):
    names = ",".join(columns)
    rows = np.stack([np.asarray(c).ravel() for c in columns.values()], axis=1)
    np.savetxt(path, rows, delimiter=",", header=names, comments="", fmt="%.17g")
    return path


def table(**further):
    runs = np.repeat(np.arange(8), 30)
    x, v = STATES[..., 0], STATES[..., 1]
    return {"run": runs, **further, "x": x, "v": v}


def test_a_column_that_is_a_parameter(tmp_path):
    stiffness = np.linspace(1, 2, 8)
    time = np.tile(0.1 * np.arange(30), 8)
    path = write_table(tmp_path / "a.csv", table(t=time, k=np.repeat(stiffness, 30)))
    dataset = import_dataset(path, tmp_path / "a.h5", parameter_columns=["k"])
    assert dataset.varied == {"k": (1.0, 2.0)} and dataset.step == 0.1
    assert dataset.system.components == ("x", "v")
    assert dataset.shapes["train"][1:] == (30, 2)
    for group in dataset.shapes:
        with h5py.File(dataset.path) as file:
            numbers = file[group]["trajectory"][...]
            np.testing.assert_array_equal(file[group]["parameter_k"], stiffness[numbers])
        np.testing.assert_array_equal(dataset.conditions(group)[:, 0], stiffness[numbers])


def test_an_input_that_changes_is_held_over_each_pair(tmp_path):
    force = RANDOM.normal(size=(8, 30))
    path = write_table(tmp_path / "a.csv", table(time=TIMES, u=force))
    dataset = import_dataset(path, tmp_path / "a.h5", parameter_columns=["u"])
    assert list(dataset.varied) == ["step", "u"]
    _, _, conditions, _ = all_pairs(dataset)
    np.testing.assert_array_equal(conditions[:, 1], force[:, :-1].ravel())
    assert "for u changes along a trajectory" in said(dataset)
    regular = write_table(tmp_path / "b.csv", table(u=force))
    dataset = import_dataset(regular, tmp_path / "b.h5", parameter_columns=["u"], step=0.5)
    assert list(dataset.varied) == ["u"] and dataset.step == 0.5
    np.testing.assert_array_equal(dataset.times("train"), [0, 0.5])
    np.testing.assert_allclose(all_pairs(dataset)[1][:3], [0, 0.5, 1])
    with pytest.raises(InputError, match=r"u changes along a trajectory.*leave --irregular out"):
        import_dataset(path, tmp_path / "c.h5", parameter_columns=["u"], irregular="resample")


def test_a_parameter_that_is_the_same_everywhere_is_the_systems(tmp_path):
    time = np.tile(0.1 * np.arange(30), 8)
    path = write_table(tmp_path / "a.csv", table(t=time, k=np.full(240, 3.0)))
    options = {"parameter_columns": ["k"], "variable": "x,v"}
    with pytest.warns(UserWarning, match="do NOT describe"):  # the data are those of k = 1
        dataset = import_dataset(path, tmp_path / "a.h5", **options, system="harmonic-oscillator")
    assert not dataset.is_family and dataset.system.parameters["k"] == 3
    assert "k is 3 everywhere" in said(dataset)


def test_equations_are_judged_with_the_parameters_of_each(tmp_path):
    exact = generate(
        "harmonic-oscillator",
        tmp_path / "exact.h5",
        count=20,
        steps=5,
        vary={"step": [0.1, 0.5], "k": [0.5, 2]},
    )
    states, conditions = exact.states("train"), exact.conditions("train")
    arrays = {
        "states": states,
        "time": conditions[:, :1] * np.arange(6),
        "k": conditions[:, 1],
    }
    options = {"parameter_columns": ["k"], "irregular": "pairs"}
    dataset = import_dataset(arrays, tmp_path / "a.h5", system="harmonic-oscillator", **options)
    found = tomllib.loads(dataset.recipe)["equations"]
    assert found["relative_residual"] < 1e-6
    assert list(dataset.varied) == ["step", "k"]
    with pytest.raises(InputError, match="u varies, but harmonic-oscillator has no such parameter"):
        import_dataset(
            {**arrays, "u": arrays["k"]},
            tmp_path / "b.h5",
            system="harmonic-oscillator",
            parameter_columns=["u"],
            irregular="pairs",
        )
    with pytest.raises(InputError, match="fit is for trajectories of equal steps"):
        import_dataset(
            arrays, tmp_path / "b.h5", system="harmonic-oscillator", fit=["m"], **options
        )


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (STATES, {"step": 1.0, "irregular": "pairs"}, "leave step out"),
        (STATES, {"irregular": "pairs"}, "irregular needs times, and none are known"),
        (STATES, {"times": TIMES, "irregular": "both"}, "expected one of pairs, resample"),
        (STATES, {"times": TIMES, "longest_step": -1.0}, "longest_step = -1.0 must be a positive"),
        (STATES, {"step": 0.1, "longest_step": 1.0}, "is for pairs of neighbours"),
        (STATES, {"step": 0.1, "parameter_columns": ["k"]}, "give a dictionary"),
        ({"x": STATES}, {"step": 0.1, "parameter_columns": ["k"]}, "has no variable 'k'"),
        (
            {"x": STATES, "k": np.ones(7)},
            {"step": 0.1, "parameter_columns": ["k"]},
            r"one for each of 8 trajectories or .* not an array of shape \(7,\)",
        ),
        (
            {"x": STATES, "k": np.full(8, np.nan)},
            {"step": 0.1, "parameter_columns": ["k"]},
            "a parameter at time 0 of trajectory 0 is no finite number",
        ),
        (STATES, {"times": TIMES[:, ::-1]}, "times must increase"),
        (
            {"x": STATES, "step": np.ones(8)},
            {"step": 0.1, "parameter_columns": ["step"]},
            "two things that vary would be named 'step'",
        ),
        (
            {"x": STATES, "1st": np.ones(8)},
            {"step": 0.1, "parameter_columns": ["1st"]},
            "column 1st: '1st' is no valid name",
        ),
    ],
)
def test_mistakes_are_told(source, options, message, tmp_path):
    with pytest.raises(InputError, match=message):
        import_dataset(source, tmp_path / "a.h5", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ["npz", "nc"])
def test_arrays_of_files_are_parameters_too(tmp_path, ending):
    path, gravity = tmp_path / f"a.{ending}", np.linspace(1, 2, 8)
    if ending == "npz":
        np.savez(path, states=STATES, time=TIMES, g=gravity)
    else:
        axes = ("trajectory", "time", "component")
        variables = {"states": (axes, STATES), "g": (axes[:1], gravity), "t": (axes[:2], TIMES)}
        xarray.Dataset(variables).to_netcdf(path, engine="h5netcdf")
    dataset = import_dataset(path, tmp_path / "b.h5", parameter_columns=["g"], variable="states")
    origin, _, conditions, _ = all_pairs(dataset)
    assert list(dataset.varied) == ["step", "g"]
    np.testing.assert_array_equal(conditions[:, 1], gravity[origin])


@pytest.mark.parametrize("vary", [{}, {"step": [0.05, 0.2]}, {"gamma": [0.2, 0.4]}])
def test_the_time_of_forced_systems_is_known(tmp_path, vary):
    exact = generate("forced-duffing", tmp_path / "a.h5", count=12, steps=6, vary=vary)
    states, conditions = exact.states("train"), exact.conditions("train")
    arrays = {"x": states[..., :2], "time": states[..., 2]}
    options = {"system": "forced-duffing", "missing": True}
    if "step" in vary:
        options["irregular"] = "pairs"
    if "gamma" in vary:
        arrays["gamma"], options["parameter_columns"] = conditions[:, 0], ["gamma"]
    dataset = import_dataset(arrays, tmp_path / "b.h5", **options)
    equations = tomllib.loads(dataset.recipe)["equations"]
    assert list(dataset.varied) == list(vary) and dataset.dim == 3
    assert equations["relative_residual"] < 1e-6
    found = np.concatenate([dataset.states(group) for group in dataset.shapes]).reshape(-1, 3)
    known = {tuple(state) for state in states.reshape(-1, 3).round(9).tolist()}
    assert {tuple(state) for state in found.round(9).tolist()} == known
