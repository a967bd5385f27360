"""Values of a source that are no plain numbers: masked, filled, complex, dates, too large."""

from decimal import Decimal
from fractions import Fraction

import h5py
import numpy as np
import pandas
import pytest
import scipy.io
import torch
import xarray

import vpintegrator as vp
from tests.data.test_importing import STATES, TIMES, all_states, notes, table_of
from vpintegrator.errors import InputError


def imported(folder, source, **options):
    return vp.import_dataset(source, folder / "data.h5", overwrite=True, **options)


MASK = np.zeros(STATES.shape, dtype=bool)
MASK[1, 4, 0] = MASK[3, 6:] = True  # one component of one state, and an end
HOLES = np.where(MASK, np.nan, STATES)
FILLED = np.where(MASK, 999.0, STATES)


def sources():
    """Every way of saying that values are missing, by name."""
    masked = np.ma.array(FILLED, mask=MASK)
    return {
        "an array": masked,
        "single precision": masked.astype(np.float32),
        "runs": [*masked],
        "rows": [[*run] for run in masked],
        "by name": {"x": masked, "dt": 0.5},
        "components": {"q": masked[..., 0], "p": masked[..., 1]},
        "nullable": table_of(STATES).assign(
            **{n: pandas.array(HOLES[..., k].ravel(), "Float64") for k, n in enumerate("xv")}
        ),
        "objects": np.where(MASK, None, STATES),
    }


@pytest.mark.parametrize("name", sources())
def test_masked_values_are_missing(name, tmp_path):
    variable = "q,p" if name == "components" else None
    dataset = imported(tmp_path, sources()[name], step=0.5, variable=variable)
    rtol = 1e-6 if name == "single precision" else 0
    np.testing.assert_allclose(all_states(dataset), HOLES, rtol=rtol)
    assert not dataset.is_complete and "missing (NaN or masked): 1 of 51 states" in notes(dataset)


def test_whole_numbers_may_be_masked_too(tmp_path):
    counts = np.ma.masked_equal(np.arange(108).reshape(STATES.shape) % 50, 49)
    dataset = imported(tmp_path, counts, step=1)
    np.testing.assert_array_equal(all_states(dataset), counts.astype(float).filled(np.nan))


def test_masked_pairs_are_lost_and_masked_times_and_parameters_are_refused(tmp_path):
    before = np.random.default_rng(0).normal(size=(40, 2))
    after = np.ma.array(2 * before, mask=np.arange(40)[:, None] < [3, 0])
    dataset = imported(tmp_path, (before, after), pairs=True)
    assert sum(shape[0] for shape in dataset.shapes.values()) == 37
    for times in (np.ma.masked_equal(TIMES, 1.0), np.ma.masked_equal((4 * TIMES).astype(int), 4)):
        with pytest.raises(InputError, match="time 4 of trajectory 0 is nan"):
            imported(tmp_path, STATES, times=times)
    table = {"x": STATES, "k": np.ma.masked_equal(np.arange(6.0), 2), "dt": 1.0}
    with pytest.raises(InputError, match="k: a parameter is a finite number"):
        imported(tmp_path, table, parameter_columns=["k"])


def test_a_component_that_is_missing_everywhere_is_refused(tmp_path):
    message = r"no two neighbouring states.*component v is NaN or masked in 54 of 54 states"
    states = STATES.copy()
    states[..., 1] = np.nan
    for source in (table_of(states), table_of(STATES).assign(v=None)):
        with pytest.raises(InputError, match=message):
            imported(tmp_path, source, step=1)


def test_a_mask_is_not_dropped_by_other_functions_of_arrays(tmp_path):
    inputs, _ = vp.windows(np.ma.array(FILLED, mask=MASK), 2, 1)
    expected, _ = vp.windows(HOLES, 2, 1)
    np.testing.assert_array_equal(inputs, expected)
    with pytest.raises(InputError, match="not finite"):
        vp.compare(None, "rk4", system="pendulum", step=0.1, initial=np.ma.array([[1, 9]], mask=1))


@pytest.mark.parametrize("kind", ["mat", "netCDF"])
def test_values_of_files_that_stand_for_none(kind, tmp_path):
    if kind == "netCDF":
        packed = xarray.Dataset({"state": (("run", "time", "component"), HOLES)}, {"time": TIMES})
        coding = {"dtype": "i4", "scale_factor": 1e-8, "add_offset": 0.5, "_FillValue": -(2**31)}
        packed.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding={"state": coding})
        dataset = imported(tmp_path, tmp_path / "a.nc")
        np.testing.assert_allclose(all_states(dataset), HOLES, atol=1e-8)
        with h5py.File(tmp_path / "b.h5", "w") as file:
            file["x"], file["dt"] = FILLED, 0.25
            file["x"].attrs["missing_value"] = 999.0
        np.testing.assert_array_equal(all_states(imported(tmp_path, tmp_path / "b.h5")), HOLES)
    else:  # cells are runs of any lengths
        cells = np.empty(6, dtype=object)
        cells[:] = [STATES[k, : 5 + k % 4] for k in range(6)]
        scipy.io.savemat(tmp_path / "a.mat", {"runs": cells, "dt": 0.25})
        dataset = imported(tmp_path, tmp_path / "a.mat", variable="runs")
        assert dataset.shapes["train"][1:] == (8, 2)
        assert np.isnan(all_states(dataset)).sum() == 2 * (3 + 2 + 1 + 0 + 3 + 2)


def complex_sources(folder):
    values = STATES + 1j
    np.savez(folder / "a.npz", x=values, dt=1.0)
    scipy.io.savemat(folder / "a.mat", {"x": values, "dt": 1.0})
    with h5py.File(folder / "a.h5", "w") as file:
        file["x"], file["dt"] = values, 1.0
    with h5py.File(folder / "matlab.h5", "w") as file:
        parts = np.zeros(STATES.shape, dtype=[("real", float), ("imag", float)])
        file["x"], file["dt"] = parts, 1.0
    table_of(STATES).astype({"v": complex}).to_csv(folder / "a.csv", index=False)
    return {
        "an array": values,
        "single precision": values.astype(np.complex64),
        "no imaginary part": STATES.astype(complex),
        "a tensor": torch.tensor(values),
        "runs": [*values],
        "numbers": values.tolist(),
        "objects": values.astype(object),
        "masked": np.ma.array(values, mask=MASK),
        "by name": {"x": values},
        "a column": table_of(STATES).astype({"v": complex}),
        "a column of objects": table_of(STATES).astype({"v": complex}).astype({"v": object}),
        **{name: folder / name for name in ("a.npz", "a.mat", "a.h5", "matlab.h5", "a.csv")},
    }


@pytest.mark.filterwarnings("error")
def test_complex_numbers_are_refused(tmp_path):
    for name, source in complex_sources(tmp_path).items():
        with pytest.raises(InputError, match=r"expected an array of real numbers, found") as error:
            imported(tmp_path, source, step=1)
        assert "\n" not in str(error.value), name
    for source in ({"x": STATES, "time": TIMES + 0j}, {"x": STATES, "dt": 1j}):
        with pytest.raises(InputError, match="expected an array of real numbers"):
            imported(tmp_path, source)
    with pytest.raises(InputError, match="states must be an array of real numbers"):
        vp.windows(STATES + 1j, 2)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([True, False] * 27, "v: expected an array of real numbers, found 'True'"),
        (pandas.array([True, None] * 27, "boolean"), "v: expected an array of real numbers"),
        (np.array([1.5, True] * 27, dtype=object), "v: expected an array of real numbers, found"),
        (pandas.date_range("2024-01-01", periods=54, freq="s"), "real numbers, found '2024-01-01"),
        (pandas.to_timedelta(np.arange(54), "s"), "v: expected an array of real numbers"),
        (2**53 + np.arange(54), "v: the whole number 9007199254741045 is beyond 2\\^53"),
        (np.full(54, 2**64 - 1, dtype=np.uint64), "v: the whole number 18446744073709551615"),
        (pandas.Categorical(["up", "down"] * 27), "v: expected an array of real numbers"),
    ],
)
def test_columns_of_other_types_are_refused(column, message, tmp_path):
    with pytest.raises(InputError, match=message):
        imported(tmp_path, table_of(STATES).assign(v=column), step=1)
    if not isinstance(column, pandas.Categorical):
        array = np.asarray(column).reshape(6, 9)
        with pytest.raises(InputError, match=r"real numbers|beyond 2\^53"):
            imported(tmp_path, {"x": STATES[..., 0], "v": array, "dt": 1}, variable="x,v")


@pytest.mark.parametrize(
    "convert",
    [
        lambda v: np.array([Decimal(repr(x)) for x in v.tolist()], dtype=object),
        lambda v: np.array([Fraction(x) for x in v], dtype=object),
        lambda v: np.array([repr(x) for x in v.tolist()], dtype=object),
        lambda v: v.astype(object),
        lambda v: pandas.arrays.SparseArray(v),
        lambda v: pandas.Categorical(v),
    ],
)
def test_columns_of_numbers_in_other_types_are_exact(convert, tmp_path):
    table = table_of(STATES).assign(v=convert(STATES[..., 1].ravel()))
    np.testing.assert_array_equal(all_states(imported(tmp_path, table, step=1)), STATES)


START = pandas.Timestamp("2024-03-31 01:59:59.5", tz="Europe/Berlin")  # summer time begins
DATES = START + pandas.to_timedelta(250 * np.arange(9), "ms")


@pytest.mark.parametrize(
    "times",
    [
        DATES,
        DATES.tz_convert(None),
        pandas.to_timedelta(0.25 * np.arange(9), "s"),
        DATES.strftime("%Y-%m-%dT%H:%M:%S.%f%z"),
        np.arange(9) / 4,
    ],
)
def test_dates_are_times_in_seconds(times, tmp_path):
    table = table_of(STATES).assign(time=np.tile(times, 6))
    dataset = imported(tmp_path, table)
    np.testing.assert_array_equal(all_states(dataset), STATES)
    assert dataset.step == 0.25
    if not isinstance(times, np.ndarray) and times.dtype.kind in "Mm":
        named = times.tz_convert(None) if getattr(times, "tz", None) else times
        for source in (
            {"x": STATES, "time": named.to_numpy()},
            xarray.DataArray(STATES, dims=("run", "time", "c"), coords={"time": named}),
            table_of(STATES).set_index(np.tile(named, 6)),  # an index of dates without a name
        ):
            assert imported(tmp_path, source).step == 0.25


def test_counts_beyond_double_precision_are_times(tmp_path):
    counts = 10**18 + 3 * np.arange(9)  # doubles there differ by 128
    for source in ({"x": STATES, "t": counts}, table_of(STATES, counts)):
        assert imported(tmp_path, source).step == 3


def test_an_index_that_says_times_or_runs_is_no_mere_number_of_rows(tmp_path):
    table = table_of(STATES, TIMES)
    for source in (table.set_index("time"), table.set_index(["run", "time"])):
        dataset = imported(tmp_path, source)
        np.testing.assert_array_equal(all_states(dataset), STATES)
        assert dataset.step == 0.25
    dataset = imported(tmp_path, table.set_index(np.random.default_rng(0).permutation(54)))
    np.testing.assert_array_equal(all_states(dataset), STATES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q,p\n0,1,2\n1,2,3\n2,3,4\n", "rows have more fields than its first row has names"),
        (",q,p\n0.5,1,2\n1.5,2,3\n2.5,3,4\n", "column 1 has no name"),
        ("q,,p\n0,1,2\n1,2,3\n2,3,4\n", "column 2 has no name"),
        ("run,q\n1,0\n1,1\n,2\n2,3\n", "row 3 has no run"),
    ],
)
def test_tables_in_which_a_column_would_be_lost(text, message, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        imported(tmp_path, tmp_path / "a.csv", step=1)


@pytest.mark.parametrize(
    "text",
    [
        ",q,p\n0,1,2\n1,2,3\n2,3,4\n",
        "q,p,\n1,2,\n2,3,\n3,4,\n",
        "q,p\n1,2,\n2,3,\n3,4,\n",
        '"run","q","p"\n"a",1,2\n"a",2,3\n"a",3,4\n',
    ],
)
def test_numbers_of_rows_are_no_component_and_runs_may_have_names(text, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    dataset = imported(tmp_path, tmp_path / "a.csv", step=1, fractions=(1, 0, 0))
    assert dataset.states("train")[0].tolist() == [[1, 2], [2, 3], [3, 4]]


def test_columns_of_one_name_are_refused(tmp_path):
    table = table_of(STATES).rename(columns={"v": "x"})
    with pytest.raises(InputError, match="several columns are named x"):
        imported(tmp_path, table, step=1)
