"""Runs of states from arrays and tables: values, times, parameters, systems, and mistakes."""

import h5py
import numpy as np
import pandas
import pytest
import scipy.io
import xarray
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import vpintegrator as vp
from vpintegrator.data import generate, import_dataset
from vpintegrator.errors import InputError
from vpintegrator.storage.toml import read_toml

STATES = np.random.default_rng(0).normal(size=(6, 9, 2))
TIMES = 0.25 * np.arange(9)


def all_states(dataset):
    """States of all groups, in the order of their numbers."""
    found = {}
    for group in dataset.shapes:
        with h5py.File(dataset.path) as file:
            numbers = file[group]["trajectory"][...]
        found |= dict(zip(numbers.tolist(), dataset.states(group), strict=True))
    return np.stack([found[k] for k in sorted(found)])


def table_of(states, times=None, names=("x", "v"), **columns):
    """A table with a row for each state, and columns of values for each run."""
    count, length, _ = states.shape
    table = {"run": np.repeat(np.arange(count), length)}
    if times is not None:
        table["time"] = np.broadcast_to(times, (count, length)).ravel()
    table |= dict(zip(names, states.reshape(-1, len(names)).T, strict=True))
    table |= {name: np.repeat(values, length) for name, values in columns.items()}
    return pandas.DataFrame(table)


def notes(dataset):
    return " ".join(read_toml(dataset.recipe, "")["imported"]["notes"])


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(
    states=hnp.arrays(
        np.float64,
        st.tuples(st.integers(3, 6), st.integers(2, 7), st.integers(1, 3)),
        elements=FINITE,
    ),
    step=st.floats(1e-6, 1e6),
)
def test_arrays_come_back_as_they_were(states, step, tmp_path_factory):
    path = tmp_path_factory.mktemp("a") / "a.h5"
    dataset = import_dataset(states, path, step=step, split="trajectory")
    np.testing.assert_array_equal(all_states(dataset), states)
    assert dataset.step == step and dataset.is_complete and dataset.system.is_measured


def write(path, kind):
    named = {"X": STATES, "t": TIMES, "note": "swing"}
    parts = {"x": STATES[..., 0], "v": STATES[..., 1], "t": TIMES}
    if kind == "npz":
        np.savez(path, orbits=STATES, time=TIMES, other=np.arange(3))
    elif kind == "joined":
        np.savez(path, x=STATES[..., :1], v=STATES[..., 1:], time=TIMES)
    elif kind == "HDF5":
        with h5py.File(path, "w") as file:
            file["lab/z"], file["lab/dt"], file["name"] = STATES, 0.25, "swing"
    elif kind == "netCDF":
        data = xarray.Dataset({"state": (("run", "time", "component"), STATES)}, {"time": TIMES})
        data.to_netcdf(path, engine="h5netcdf")
    elif kind == "MATLAB 4":
        scipy.io.savemat(path, parts, format="4")
    elif kind == "MATLAB 7":
        scipy.io.savemat(path, named, do_compression=True)
    elif kind == "MATLAB 7.3":  # a header of 512 bytes, arrays by columns
        named |= {"t": TIMES[None], "note": np.array([[115, 119]], np.uint16)}
        with h5py.File(path, "w", userblock_size=512) as file:
            for name, values in named.items():
                file[name] = values.T
                kind = "char" if name == "note" else "double"
                file[name].attrs["MATLAB_class"] = np.bytes_(kind)
    elif kind == "blanks":
        rows = table_of(STATES, TIMES)
        np.savetxt(path, rows, header="run time x v", comments="", fmt="%.17g")
    else:
        table_of(STATES, TIMES).to_csv(path, index=False)


@pytest.mark.parametrize(
    ("name", "kind", "variable"),
    [
        ("a.npz", "npz", None),
        ("a.npz", "joined", "x,v"),
        ("a.h5", "HDF5", None),
        ("a.nc", "netCDF", None),
        ("a.mat", "MATLAB 4", "x,v"),
        ("a.mat", "MATLAB 7", None),
        ("a.mat", "MATLAB 7.3", None),
        ("a.csv", "table", None),
        ("a.csv.gz", "table", "x,v"),
        ("a.txt", "blanks", None),
    ],
)
def test_every_kind_of_file(name, kind, variable, tmp_path):
    write(tmp_path / name, kind)
    dataset = import_dataset(tmp_path / name, tmp_path / "data.h5", variable=variable)
    np.testing.assert_array_equal(all_states(dataset), STATES)
    assert dataset.step == 0.25
    assert [shape[0] for shape in dataset.shapes.values()] == [4, 1, 1]


def test_a_table_without_a_header_is_named_and_a_header_is_renamed(tmp_path):
    table = table_of(STATES, TIMES)
    for header, name in ((False, "a.csv"), (True, "b.csv")):
        table.to_csv(tmp_path / name, header=header, index=False)
        dataset = import_dataset(
            tmp_path / name,
            tmp_path / "a.h5",
            columns=["run", "t", "theta [rad]", "omega"],
            overwrite=True,
        )
        np.testing.assert_array_equal(all_states(dataset), STATES)
        assert dataset.system.components == ("theta", "omega")


def test_few_trajectories_are_cut_in_time_and_dealing_out_is_repeatable(tmp_path):
    states = np.random.default_rng(1).normal(size=(100, 3))
    dataset = import_dataset(states, tmp_path / "a.h5", step=0.1)
    joined = np.concatenate([dataset.states(group)[0] for group in dataset.shapes])
    np.testing.assert_array_equal(joined, states)
    assert dataset.times("test")[0] == pytest.approx(8.5)
    names = [{"seed": 1}, {"seed": 1}, {"seed": 2}, {"fractions": (0.5, 0.5, 0)}]
    found = [
        import_dataset(STATES, tmp_path / f"{k}.h5", step=1, **options)
        for k, options in enumerate(names)
    ]
    np.testing.assert_array_equal(found[0].states("train"), found[1].states("train"))
    assert not np.array_equal(found[0].states("train"), found[2].states("train"))
    assert found[3].shapes["test"][0] == 0


def test_runs_may_differ_in_length(tmp_path):
    table = table_of(STATES, TIMES)
    table = table[(table.run != 2) | (table.time < 1.2)]
    padded = STATES.copy()
    padded[2, 5:] = np.nan
    listed = [run[np.isfinite(run).all(axis=1)] for run in padded]
    for source, step in ((table, None), ({"states": padded, "time": TIMES}, None), (listed, 0.25)):
        dataset = import_dataset(source, tmp_path / "a.h5", step=step, overwrite=True)
        np.testing.assert_array_equal(all_states(dataset), padded)
        assert not dataset.is_complete


@pytest.mark.parametrize("digits", [2, 4, 12])
def test_rounded_times_have_one_step(digits, tmp_path):
    times = np.round(0.05 * np.arange(400), digits)
    dataset = import_dataset(np.zeros((400, 2)), tmp_path / "a.h5", times=times)
    assert dataset.step == 0.05
    thirds = np.round(np.arange(400) / 300, 4)
    dataset = import_dataset(
        np.zeros((400, 2)), tmp_path / "a.h5", times=thirds, step=1 / 300, overwrite=True
    )
    assert dataset.step == 1 / 300


def test_runs_may_have_steps_and_parameters_of_their_own(tmp_path):
    steps = np.linspace(0.05, 0.2, 6)
    table = table_of(STATES, steps[:, None] * np.arange(9), l=np.arange(6.0), m=np.ones(6))
    dataset = import_dataset(table, tmp_path / "a.h5", parameter_columns=["l", "m"])
    assert list(dataset.varied) == ["step", "l"] and dataset.varied["l"] == (0, 5)
    assert dataset.system.parameters["m"] == 1
    both = np.concatenate([dataset.conditions(group) for group in dataset.shapes])
    np.testing.assert_allclose(both[np.argsort(both[:, 1])], np.stack([steps, np.arange(6)], -1))


def test_columns_go_where_the_system_has_them(tmp_path):
    states = 0.4 * STATES  # the position is an angle
    table = table_of(states, TIMES, names=("p", "q"))
    dataset = import_dataset(table, tmp_path / "a.h5", system="pendulum", parameters={"g": 9.81})
    np.testing.assert_array_equal(all_states(dataset), states[..., ::-1])
    assert dataset.system.parameters["g"] == 9.81


@given(seed=st.integers(0, 10**6), period=st.floats(0.5, 700), shorter=st.booleans())
def test_angles_are_continued_over_their_jumps(seed, period, shorter, tmp_path_factory):
    generator = np.random.default_rng(seed)
    true = np.cumsum(generator.uniform(-0.2, 0.2, size=(4, 60, 2)) * period, axis=1)
    if shorter:
        true[0, 40:] = np.nan
    seen = true.copy()
    seen[..., 0] = (true[..., 0] + period / 2) % period - period / 2
    text = f'measured = true\nstate = ["q", "w"]\nperiodic = {{ q = "{period!r}" }}\n'
    path = tmp_path_factory.mktemp("a") / "a.h5"
    dataset = import_dataset(seen, path, step=1, system=vp.load_system(text), split="trajectory")
    found = all_states(dataset)
    turns = (found - true)[..., 0] / period
    np.testing.assert_allclose(turns - np.round(turns[:, :1]), 0 * turns, atol=1e-9)
    np.testing.assert_array_equal(found[..., 1], true[..., 1])
    jumped = (np.abs(np.diff(seen[..., 0], axis=1)) > period / 2).any()
    assert jumped == ("continued over it: q" in dataset.recipe)


@pytest.mark.parametrize("vary", [{}, {"gamma": (0.2, 0.4)}])
def test_equations_are_compared_with_the_states_and_their_time_is_known(vary, tmp_path):
    original = generate("forced-duffing", tmp_path / "a.h5", count=8, steps=20, vary=vary)
    states = original.states("train")
    source = {"states": states[..., :2], "time": states[..., 2]}
    source |= {"gamma": original.conditions("train")[:, 0]} if vary else {}
    dataset = import_dataset(
        source, tmp_path / "b.h5", system="forced-duffing", parameter_columns=[*vary]
    )
    np.testing.assert_allclose(all_states(dataset), states, rtol=1e-12)
    miss = float(notes(dataset).partition("by ")[2].split()[0])
    assert miss < 1e-8
    if not vary:
        wrong = import_dataset(
            source, tmp_path / "c.h5", system="forced-duffing", parameters={"gamma": 3.0}
        )
        assert float(notes(wrong).partition("by ")[2].split()[0]) > 1e-2


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (np.zeros(3), {"step": 1}, r"expected one array of states.*found array \(3,\)"),
        (np.zeros((6, 1, 2)), {"step": 1}, "needs two states or more"),
        (np.zeros((6, 5, 2)), {}, "does not say the time between two states"),
        (np.zeros((6, 5, 2)), {"times": np.arange(4)}, r"times of shape \(4,\) do not fit"),
        (np.zeros((6, 5, 2)), {"times": [0, 1, 2, 3, 5]}, "time 4 of trajectory 0 is 5"),
        (np.zeros((6, 5, 2)), {"step": 1, "components": ["q"]}, "1 components are named"),
        (np.zeros((6, 5, 2)), {"step": 1, "columns": ["q"]}, "columns names those of a text"),
        (np.full((6, 5, 2), 1j), {"step": 1}, "expected an array of real numbers"),
        (np.full((6, 5, 2), np.inf), {"step": 1}, "component 0 at time 0 of trajectory 0 is inf"),
        (np.zeros((6, 5, 2)), {"step": 1, "split": "half"}, "split by must be one of"),
        (np.zeros((6, 5, 2)), {"step": 1, "parameters": {"g": 1}}, "give one with --system"),
        (np.zeros((6, 5, 2)), {"step": 1, "system": "rigid-body"}, "has 3 components"),
        (np.zeros((6, 5, 3)), {"step": 1, "structure": "symplectic"}, "as many momenta"),
        ({"a": STATES, "b": STATES}, {"step": 1}, "expected one array of states"),
        ({"a": STATES, "k": np.ones(4)}, {"step": 1, "parameter_columns": ["k"]}, "each of 6 traj"),
        ({"a": STATES, "b": STATES[..., 0]}, {"variable": "a,b"}, "or several arrays of the same"),
        (table_of(STATES, TIMES**2), {}, r"time 1 of .* is 0.0625, 0.0625 after .* equal steps"),
        (table_of(STATES, TIMES), {"variable": "r"}, "no variable 'r'"),
        (
            table_of(STATES, TIMES),
            {"parameter_columns": ["v"]},
            "v: a parameter is a finite number",
        ),
        (
            table_of(STATES).assign(note="good"),
            {"step": 1},
            "note: expected an array of real numbers, found 'good'",
        ),
    ],
)
def test_mistakes(source, options, message, tmp_path):
    with pytest.raises(InputError, match=message) as error:
        import_dataset(source, tmp_path / "a.h5", **options)
    assert "\n" not in str(error.value) and not (tmp_path / "a.h5").exists()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "0,1,2\n1,2,3\n", "name all 3 columns with --columns"),
        ("a.csv", "t;q;p\n0;1;2\n1;2;3\n", "that pandas.read_csv reads"),
        ("a.csv", "", "cannot be read, it may be damaged"),
        ("a.xlsx", "t", "give .npz, .npy, .h5, .mat or .csv"),
        ("a.npz", "t,q", "cannot be read, it may be damaged"),
        ("a.h5", "t,q", "is not an HDF5 file"),
    ],
)
def test_files_that_are_no_tables_or_arrays(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        import_dataset(tmp_path / name, tmp_path / "data.h5")


def test_nothing_is_unpickled_and_links_are_not_followed(tmp_path):
    np.save(tmp_path / "a.npy", np.array([print], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="cannot be read"):
        import_dataset(tmp_path / "a.npy", tmp_path / "a.h5", step=1)
    (tmp_path / "secret").write_bytes(b"secretly" * 200)
    with h5py.File(tmp_path / "external.h5", "w") as file:
        file.create_dataset("x", (20, 2), dtype="f8", external=[(tmp_path / "secret", 0, 320)])
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["x"] = h5py.ExternalLink("external.h5", "x")
    for name in ("external.h5", "link.h5"):
        with pytest.raises(InputError, match=r"other files|found nothing"):
            import_dataset(tmp_path / name, tmp_path / "a.h5", step=1)


def test_the_structure_is_that_of_the_names_or_the_claim(tmp_path):
    for names, claim, structure in (
        (("x", "px"), None, "measured, symplectic"),
        (("x", "px"), "none", "measured, no structure"),
        (("u", "v"), "volume", "measured, volume-preserving"),
        (("u", "v"), None, "measured"),
        (("q1", "q2"), "lagrangian", "measured, positions of a mechanical system"),
    ):
        dataset = import_dataset(
            STATES, tmp_path / "a.h5", step=1, components=names, structure=claim, overwrite=True
        )
        assert vp.open_dataset(dataset.path).system.kind.startswith(structure)


@pytest.mark.parametrize(
    ("system", "count", "steps", "noise"),
    [("pendulum", 40, 30, 1e-3), ("rigid-body", 40, 30, 0.0), (None, 7, 200, 0.0)],
)
def test_arrays_with_times_first_are_refused_unless_it_is_said(
    system, count, steps, noise, tmp_path
):
    made = generate(system or "pendulum", tmp_path / "a.h5", count=count, steps=steps)
    states = made.states("train")
    states += noise * np.random.default_rng(0).normal(size=states.shape)
    named = {"path": tmp_path / "b.h5", "step": made.step, "system": system}
    right = all_states(import_dataset(states, overwrite=True, **named))
    named["path"].unlink()
    swapped = states.swapaxes(0, 1)
    with pytest.raises(InputError, match="looks like \\(time, trajectory, dim\\); say --axes time"):
        import_dataset(swapped, **named)
    assert not named["path"].exists()
    for axes, expected in (("time", right.shape), ("trajectory", swapped.shape)):
        found = all_states(import_dataset(swapped, axes=axes, overwrite=True, **named))
        assert found.shape == expected
        assert axes == "trajectory" or np.array_equal(found, right)


def test_positions_of_a_mechanical_system_claim_a_lagrangian_and_no_volume(tmp_path):
    options = {"step": 1, "structure": "lagrangian", "overwrite": True}
    dataset = import_dataset(STATES, tmp_path / "a.h5", components=["u", "v"], **options)
    assert "taken for positions of a mechanical system" in notes(dataset)
    system = dataset.system
    assert system.is_lagrangian and not system.may_preserve_volume
    assert not (system.is_canonical or system.divergence_free)
    assert vp.models.suited(system) == vp.models.suited(system, {"window": 2}) == "lagrangian"
    assert vp.models.build(system).structure.form == "lagrangian"
    again = vp.load_system(system.text)  # as a system file declares it
    assert again.is_lagrangian and again.kind == "measured, positions of a mechanical system"
    one = import_dataset(STATES[..., :1], tmp_path / "a.h5", **options).system
    assert one.is_lagrangian and vp.models.suited(one) == "lagrangian"
    for names in (["q", "p"], ["x", "vx"]):
        with pytest.raises(InputError, match=rf"positions alone, but {names[1]} are named as mom"):
            import_dataset(STATES, tmp_path / "a.h5", components=names, **options)
    gaps = STATES.copy()
    gaps[:, 2::3] = np.nan
    for short, longest in ((STATES[:, :2], 2), (gaps, 8)):
        with pytest.raises(InputError, match=f"need three states .* longest run has {longest}"):
            import_dataset(short, tmp_path / "a.h5", **options)
    for other in ("symplectic", "divergence_free"):
        text = f'measured = true\nlagrangian = true\n{other} = true\nstate = ["a", "b"]\n'
        with pytest.raises(InputError, match=f"lagrangian and {other}"):
            vp.load_system(text)
    with pytest.raises(InputError, match="lagrangian"):
        vp.load_system('lagrangian = true\nstate = ["q", "p"]\nhamiltonian = "p**2"\n')
