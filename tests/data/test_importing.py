"""One's own trajectories: every kind of file, shape and time axis, and plain words for mistakes."""

import io
import zipfile

import h5py
import numpy as np
import pytest
import scipy.io
import xarray
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from vpintegrator.data import generate, import_dataset
from vpintegrator.data.importing.arguments import Identification, Reading, Sharing
from vpintegrator.errors import InputError

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


def write_csv(path, states, times=None, header=("x", "v"), trajectory="trajectory"):
    names = [*([trajectory] if trajectory else []), *([] if times is None else ["time"]), *header]
    lines = [",".join(names)]
    for k, orbit in enumerate(states):
        for t, state in enumerate(orbit):
            row = [
                *([str(k)] if trajectory else []),
                *([] if times is None else [repr(float(times[t]))]),
            ]
            lines.append(",".join([*row, *(repr(float(v)) for v in state)]))
    path.write_text("\n".join(lines) + "\n")
    return path


@given(
    states=hnp.arrays(
        np.float64,
        st.tuples(st.integers(3, 6), st.integers(2, 7), st.integers(1, 3)),
        elements=st.floats(allow_nan=False, allow_infinity=False),
    ),
    step=st.floats(1e-6, 1e6),
)
def test_arrays_come_back_as_they_were(states, step, tmp_path_factory):
    path = tmp_path_factory.mktemp("a") / "a.h5"
    dataset = import_dataset(states, path, step=step, split="trajectory")
    np.testing.assert_array_equal(all_states(dataset), states)
    assert dataset.step == step
    assert dataset.system.is_measured


@given(
    states=hnp.arrays(
        np.float64,
        st.tuples(st.integers(3, 5), st.integers(2, 6), st.just(2)),
        elements=st.floats(allow_nan=False, allow_infinity=False),
    )
)
def test_tables_come_back_as_they_were(states, tmp_path_factory):
    folder = tmp_path_factory.mktemp("a")
    table = write_csv(folder / "a.csv", states, 0.5 * np.arange(states.shape[1]))
    dataset = import_dataset(table, folder / "a.h5", split="trajectory")
    np.testing.assert_array_equal(all_states(dataset), states)
    assert dataset.step == 0.5
    assert dataset.system.components == ("x", "v")


def write_npz(path):
    np.savez(path, orbits=STATES, time=TIMES, other=np.arange(3))


def write_npz_components(path):
    np.savez(path, x=STATES[..., 0], v=STATES[..., 1], dt=0.25)


def write_hdf5(path):
    with h5py.File(path, "w") as file:
        file["run/z"] = STATES
        file.attrs["step"] = 0.25


def write_netcdf4(path):
    data = xarray.Dataset(
        {"state": (("time", "run", "component"), STATES.transpose(1, 0, 2))},
        {"time": TIMES, "component": ["x", "v"]},
    )
    data.to_netcdf(path, engine="h5netcdf")


def write_netcdf3(path):
    with scipy.io.netcdf_file(path, "w") as file:
        for name, size in zip(("run", "time", "component"), STATES.shape, strict=True):
            file.createDimension(name, size)
        file.createVariable("time", "d", ("time",))[:] = TIMES
        file.createVariable("state", "d", ("run", "time", "component"))[:] = STATES


def write_table(path):
    write_csv(path, STATES, TIMES)


def write_columns(path):
    rows = np.concatenate([np.tile(TIMES, 6)[:, None], STATES.reshape(-1, 2)], axis=1)
    rows = np.concatenate([np.repeat(np.arange(6), 9)[:, None], rows], axis=1)
    np.savetxt(path, rows, header="id t x v", fmt="%.17g")


@pytest.mark.parametrize(
    ("name", "write", "variable"),
    [
        ("a.npz", write_npz, None),
        ("a.npz", write_npz_components, "x,v"),
        ("a.h5", write_hdf5, None),
        ("a.nc", write_netcdf4, None),
        ("a.nc", write_netcdf3, None),
        ("a.csv", write_table, None),
        ("a.txt", write_columns, None),
    ],
)
def test_every_kind_of_file(name, write, variable, tmp_path):
    write(tmp_path / name)
    dataset = import_dataset(tmp_path / name, tmp_path / "out.h5", variable=variable)
    np.testing.assert_allclose(all_states(dataset), STATES, rtol=1e-15)
    assert dataset.step == 0.25
    assert [shape[0] for shape in dataset.shapes.values()] == [4, 1, 1]


def test_our_own_file_is_read_as_any_other(tmp_path):
    first = generate("pendulum", tmp_path / "a.h5", count=20, steps=4)
    again = import_dataset(first.path, tmp_path / "b.h5", variable="train/state", system="pendulum")
    np.testing.assert_array_equal(all_states(again), first.states("train"))
    assert again.step == first.step
    assert again.system.is_hamiltonian


def test_a_single_trajectory_is_cut_in_time(tmp_path):
    states = np.cos(0.1 * np.arange(100))[:, None] * [1.0, 2.0]
    dataset = import_dataset(states, tmp_path / "a.h5", times=3 + 0.1 * np.arange(100))
    assert [shape[:2] for shape in dataset.shapes.values()] == [(1, 70), (1, 15), (1, 15)]
    joined = np.concatenate([dataset.states(group)[0] for group in dataset.shapes])
    np.testing.assert_array_equal(joined, states)
    np.testing.assert_allclose(dataset.times("validation"), 10 + 0.1 * np.arange(15))


def test_columns_go_where_the_system_has_them(tmp_path):
    table = write_csv(tmp_path / "a.csv", STATES, TIMES, header=("p (kg m/s)", "q (m)"))
    dataset = import_dataset(table, tmp_path / "a.h5", system="pendulum", parameters={"g": 9.81})
    np.testing.assert_array_equal(all_states(dataset), STATES[..., ::-1])
    assert dataset.system.parameters["g"] == 9.81
    # without a system the names are taken over, as far as they can be names
    plain = import_dataset(table, tmp_path / "b.h5", structure="none")
    assert plain.system.components == ("p", "q")
    np.testing.assert_array_equal(all_states(plain), STATES)
    # positions come before momenta in symplectic states
    proposed = import_dataset(table, tmp_path / "c.h5")
    assert proposed.system.components == ("q", "p")
    np.testing.assert_array_equal(all_states(proposed), STATES[..., ::-1])


def test_trajectories_of_different_lengths(tmp_path):
    orbits = [STATES[k, : 9 - k] for k in range(6)]
    dataset = import_dataset(write_csv(tmp_path / "a.csv", orbits, TIMES), tmp_path / "a.h5")
    states = all_states(dataset)
    assert not dataset.is_complete
    for k, orbit in enumerate(orbits):
        np.testing.assert_array_equal(states[k, : 9 - k], orbit)
        assert np.isnan(states[k, 9 - k :]).all()


def test_trajectories_may_have_names_and_stand_mixed(tmp_path):
    rows = ["run,t,x"]
    rows += [f"{name},{0.5 * t},{10 * k + t}" for t in range(4) for k, name in enumerate("bac")]
    (tmp_path / "a.csv").write_text("\n".join(rows))
    dataset = import_dataset(tmp_path / "a.csv", tmp_path / "a.h5", split="trajectory")
    expected = np.arange(4)[None] + 10 * np.arange(3)[:, None]
    np.testing.assert_array_equal(all_states(dataset)[..., 0], expected)


def test_missing_states_if_they_are_allowed(tmp_path):
    states = STATES.copy()
    states[2, 3, 1] = np.nan
    with pytest.raises(InputError, match="component 1 at time 3 of trajectory 2 is NaN; remove it"):
        import_dataset(states, tmp_path / "a.h5", step=1.0)
    dataset = import_dataset(states, tmp_path / "a.h5", step=1.0, missing=True)
    np.testing.assert_array_equal(all_states(dataset), states)
    assert not dataset.is_complete


def test_times_left_out_if_they_are_allowed(tmp_path):
    kept = [0, 1, 2, 5, 6, 8]
    arrays = {"state": STATES[:, kept], "time": TIMES[kept]}
    with pytest.raises(InputError, match=r"not equal, 0.75 after t = 0.5 .*--missing"):
        import_dataset(arrays, tmp_path / "a.h5")
    dataset = import_dataset(arrays, tmp_path / "a.h5", missing=True)
    states = all_states(dataset)
    np.testing.assert_array_equal(states[:, kept], STATES[:, kept])
    assert np.isnan(states[:, [3, 4, 7]]).all()
    assert dataset.step == 0.25


def test_rounded_times(tmp_path):
    """Thirty frames a second, written with milliseconds."""
    times = np.round(np.arange(40) / 30, 3)
    states = np.zeros((3, 40, 1))
    with pytest.raises(InputError, match="give --step if times are rounded"):
        import_dataset(states, tmp_path / "a.h5", times=times)
    dataset = import_dataset(states, tmp_path / "a.h5", times=times, step=1 / 30)
    assert dataset.step == 1 / 30
    assert dataset.shapes["train"][:2] == (3, 28)


def test_dealing_out_is_random_and_repeatable(tmp_path):
    states = np.arange(40.0).reshape(40, 1, 1) + np.zeros((40, 3, 1))

    def first_of(seed, name):
        dataset = import_dataset(states, tmp_path / name, step=1.0, seed=seed)
        return dataset.states("test")[:, 0, 0].tolist()

    assert first_of(1, "a.h5") == first_of(1, "b.h5")
    assert first_of(1, "c.h5") != first_of(2, "d.h5")


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (STATES, {}, "does not say the time between two states; give it with --step"),
        (STATES, {"step": -1.0}, "step = -1.0 must be a positive number"),
        (STATES[0, :, 0], {"step": 1.0}, r"expected states of shape .* found \(9,\)"),
        (STATES[None], {"step": 1.0}, r"found \(1, 6, 9, 2\)"),
        (STATES[:, :1], {"step": 1.0}, "two times or more"),
        (STATES[:0], {"step": 1.0}, r"found \(0, 9, 2\)"),
        (STATES + 1j, {"step": 1.0}, "expected real numbers, found complex numbers"),
        (np.array([["a"]]), {"step": 1.0}, "expected real numbers, found text"),
        ([[1.0], [2.0, 3.0]], {"step": 1.0}, "cannot be read as an array"),
        (np.full((3, 4, 1), np.inf), {"step": 1.0, "missing": True}, "is infinite .*12 such"),
        (STATES, {"times": TIMES[:5]}, r"times of shape \(5,\) do not fit"),
        (STATES, {"times": TIMES**2, "step": 0.1}, "steps are not equal, 0.0625 after t = 0"),
        (STATES, {"times": TIMES[::-1]}, "times must increase, but 1.75 comes after 2"),
        (STATES, {"times": TIMES * np.nan}, "the time of row 0 in trajectory 0 is not a number"),
        (STATES, {"step": 1.0, "system": "rigid-body"}, "has 3 components .* states of 2"),
        (STATES, {"step": 1.0, "system": "rigid-bod"}, "did you mean 'rigid-body'"),
        (STATES, {"step": 1.0, "parameters": {"g": 1}}, "give one with --system"),
        (STATES, {"step": 1.0, "split": "space"}, "split by 'space'"),
        (STATES, {"step": 1.0, "fractions": (1, 2, 3)}, "which add up to 1"),
        (STATES[:2], {"step": 1.0, "split": "trajectory"}, "2 trajectories are too few"),
        ({"a": STATES, "b": STATES}, {"step": 1.0}, "several arrays .* a, b; name one"),
        ({"a": STATES}, {"step": 1.0, "variable": "c"}, "no variable 'c'"),
        ({"a": TIMES}, {"step": 1.0}, r"no array of shape .* but a \(9,\)"),
        ({"a": TIMES, "b": TIMES[1:]}, {"variable": "a,b"}, "arrays that are joined need the same"),
    ],
)
def test_mistakes_in_arrays(source, options, message, tmp_path):
    with pytest.raises(InputError, match=message):
        import_dataset(source, tmp_path / "a.h5", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("x,v\n1,2\n3\n", {"step": 1.0}, "component 1 at time 1 is NaN"),
        ("x,v\n1,2\n3,b\n", {"step": 1.0}, "line 3, column v: 'b' is not a number"),
        ("x,v\n1,2\n3,\n", {"step": 1.0}, "component 1 at time 1 is NaN"),
        ("x,x\n1,2\n", {"step": 1.0}, "two columns are named 'x'"),
        ("x,v\n", {"step": 1.0}, "holds no rows of numbers"),
        ("", {"step": 1.0}, "is empty"),
        ("time\n1\n2\n", {}, "no column for the states, only time"),
        ("t,x\n0,1\n1,1\n", {"variable": "v"}, "no column 'v'"),
        ("x,v\n1,2\n3,4\n", {}, "does not say the time between two states"),
        ("t,x\n0,1\n1,1\n3,1\n4,1\n5,1\n6,1\n", {}, "steps are not equal, 2 after t = 1"),
    ],
)
def test_mistakes_in_tables(text, options, message, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        import_dataset(tmp_path / "a.csv", tmp_path / "a.h5", **options)
    assert not (tmp_path / "a.h5").exists()


@pytest.mark.parametrize("name", ["a.npz", "a.npy", "a.h5", "a.nc", "a.csv"])
def test_files_that_are_damaged(name, tmp_path):
    (tmp_path / name).write_bytes(b"\x89PK\x03\x04\xff\xfe\x00garbage" * 9)
    with pytest.raises(InputError, match=name):
        import_dataset(tmp_path / name, tmp_path / "out.h5", step=1.0)


def test_nothing_is_unpickled(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", a=np.array([print], dtype=object))
    for name in ("a.npy", "a.npz"):
        with pytest.raises(InputError, match="holds Python objects, which are not read"):
            import_dataset(tmp_path / name, tmp_path / "out.h5", step=1.0)


def test_names_of_files(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        import_dataset(tmp_path / "a.npz", tmp_path / "out.h5")
    with pytest.raises(InputError, match="is a folder"):
        import_dataset(tmp_path, tmp_path / "out.h5")
    (tmp_path / "a.xyz").write_text("1")
    with pytest.raises(InputError, match=r"cannot tell what a file '\.xyz' is"):
        import_dataset(tmp_path / "a.xyz", tmp_path / "out.h5")


def test_packed_values_of_netcdf(tmp_path):
    with h5py.File(tmp_path / "a.nc", "w") as file:
        packed = np.array([[[1], [2], [-9]]], dtype=np.int16)
        state = file.create_dataset("state", data=packed)
        state.attrs["_FillValue"] = np.int16(-9)
        state.attrs["scale_factor"], state.attrs["add_offset"] = 0.5, 10.0
    options = {"step": 1.0, "missing": True, "fractions": (1, 0, 0)}
    dataset = import_dataset(tmp_path / "a.nc", tmp_path / "a.h5", **options)
    np.testing.assert_array_equal(dataset.states("train"), [[[10.5], [11], [np.nan]]])


@pytest.mark.parametrize("far", [1e9, 1e300, 1e308])
def test_times_that_lie_absurdly_far_off_are_told(tmp_path, far):
    times = np.array([-far, 0.0, 0.1, 0.2, 0.3, far])
    with pytest.raises(InputError, match=r"the times span .* steps of 0\.1"):
        import_dataset(STATES[0, :6], tmp_path / "a.h5", times=times, missing=True)


def write_matlab(path, variables):
    """A file as MATLAB 7.3 writes it: a header of 512 bytes, arrays by columns, vectors 2-D."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, (values, kind) in variables.items():
            values = np.atleast_2d(values)
            file[name] = values.T
            file[name].attrs["MATLAB_class"] = np.bytes_(kind)
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Jan  1 2024".ljust(116))
        raw.write(bytes(8) + b"\x00\x02IM")


def test_matlab_arrays_keep_the_axes_that_matlab_shows(tmp_path):
    states = np.random.default_rng(0).normal(size=(6, 9, 2))
    times = 0.5 * np.arange(9)
    note = np.array([ord(c) for c in "swing"], dtype=np.uint16), "char"
    for name, column in (("row", times[None]), ("column", times[:, None])):
        path = tmp_path / f"{name}.mat"
        write_matlab(
            path, {"X": (states, "double"), "t": (column, "double"), "note": note, "k": note}
        )
        dataset = import_dataset(path, tmp_path / f"{name}.h5", split="time")
        assert dataset.step == 0.5
        both = np.concatenate([dataset.states(g) for g in dataset.shapes], axis=1)
        np.testing.assert_array_equal(both, states)


def test_matlab_vectors_are_components(tmp_path):
    x, y = np.random.default_rng(0).normal(size=(2, 9))
    vectors = {"x": (x[:, None], "double"), "y": (y[:, None], "single"), "dt": (0.1, "double")}
    write_matlab(tmp_path / "a.mat", vectors)
    dataset = import_dataset(tmp_path / "a.mat", tmp_path / "a.h5", variable="x,y")
    assert dataset.step == 0.1
    both = np.concatenate([dataset.states(g) for g in dataset.shapes], axis=1)[0]
    np.testing.assert_array_equal(both, np.stack([x, y], axis=-1))


def test_octave_arrays_keep_the_axes_that_octave_shows(tmp_path):
    states = np.random.default_rng(0).normal(size=(6, 9, 2))
    with h5py.File(tmp_path / "octave.h5", "w") as file:
        file["X/value"] = states.T
        file["X"].attrs["OCTAVE_NEW_FORMAT"] = np.uint8(1)
    dataset = import_dataset(tmp_path / "octave.h5", tmp_path / "a.h5", step=1, split="time")
    assert dataset.shapes["train"][::2] == (6, 2)


def test_arrays_that_lie_elsewhere_or_nowhere_are_refused(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"secretly" * 200)
    with h5py.File(tmp_path / "external.h5", "w") as file:
        file.create_dataset("x", (20, 2), dtype="f8", external=[(secret, 0, 320)])
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["x"] = h5py.ExternalLink("external.h5", "x")
    with h5py.File(tmp_path / "bomb.h5", "w") as file:
        file.create_dataset("x", (10**9, 2), chunks=(1000, 2), dtype="f8", compression="gzip")
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", array_bytes(np.zeros((10**7, 2))))
    (tmp_path / "lie.npy").write_bytes(array_bytes(np.zeros(2)).replace(b"(2,)", b"(9**99,)"))
    huge = array_bytes(np.zeros((2, 2))).replace(b"(2, 2), }          ", b"(20000000000, 2), }")
    assert b"000" in huge
    (tmp_path / "huge.npy").write_bytes(huge)
    (tmp_path / "objects.npy").write_bytes(array_bytes(np.array([{}, {}], dtype=object)))
    for name, said in {
        "external.h5": "its numbers lie in other files",
        "link.h5": "holds no array",
        "bomb.h5": "out of proportion",
        "bomb.npz": "out of proportion",
        "lie.npy": "cannot be read as NumPy arrays",
        "huge.npy": "not as many numbers as its shape",
        "objects.npy": "Python objects, which are not read",
    }.items():
        with pytest.raises(InputError, match=said):
            import_dataset(tmp_path / name, tmp_path / "a.h5", step=1)
    assert not (tmp_path / "a.h5").exists()


def array_bytes(values):
    stream = io.BytesIO()
    np.save(stream, values, allow_pickle=True)
    return stream.getvalue()


@pytest.mark.parametrize("name", ["DIMENSION_LIST", "DIMENSION_LABELS"])
def test_attributes_that_end_the_process_in_the_library_are_not_given_to_it(tmp_path, name):
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["x"] = STATES
        file["x"].attrs[name] = np.array([10**13, 2, 3])
    dataset = import_dataset(tmp_path / "in.h5", tmp_path / "a.h5", step=1, split="time")
    assert dataset.shapes["train"][::2] == (6, 2)


def test_labels_of_axes_are_their_names(tmp_path):
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["x"] = STATES.transpose(0, 2, 1)
        file["x"].dims[2].label = "time"
    dataset = import_dataset(tmp_path / "in.h5", tmp_path / "a.h5", step=1, split="time")
    assert dataset.shapes["train"][::2] == (6, 2)


def test_arguments_in_groups_mean_the_same_as_flat_ones(tmp_path):
    flat = import_dataset(
        STATES, tmp_path / "a.h5", times=TIMES, components=["q", "p"], split="time", seed=3
    )
    groups = import_dataset(
        STATES,
        tmp_path / "b.h5",
        reading=Reading(times=TIMES, components=["q", "p"]),
        identification=Identification(),
        sharing=Sharing(split="time", seed=3),
    )
    assert (flat.fingerprint, flat.recipe) == (groups.fingerprint, groups.recipe)
    with pytest.raises(InputError, match="no argument 'variabel'; did you mean 'variable'"):
        import_dataset(STATES, tmp_path / "c.h5", variabel="z")
