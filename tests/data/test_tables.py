"""Tables as laboratories write them: what is found out by itself, and what is said about it."""

import gzip
import sys
import tomllib

import numpy as np
import pytest
import xarray

import vpintegrator as vp
from vpintegrator.data import import_dataset
from vpintegrator.errors import InputError

TIMES = np.round(0.1 * np.arange(20), 10)
STATES = np.stack([np.cos(TIMES), -np.sin(TIMES)], axis=-1)


def table(separator=",", header="time,q,p", decimal=".", rows=None):
    """The text of a table of time and two components."""
    rows = np.column_stack([TIMES, STATES]) if rows is None else rows
    lines = [header.replace(",", separator)] if header else []
    lines += [separator.join(repr(float(v)).replace(".", decimal) for v in row) for row in rows]
    return "\n".join(lines) + "\n"


def load(tmp_path, text, name="lab.csv", **options):
    """The dataset of a text, all its states in their order, and what was guessed."""
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    dataset = import_dataset(tmp_path / name, tmp_path / "lab.h5", overwrite=True, **options)
    states = np.concatenate([dataset.states(group)[0] for group in dataset.shapes])
    record = tomllib.loads(dataset.recipe)["imported"]
    return dataset, states, record


def said(record, *words):
    """Whether one guess holds all of the words, and there is no other."""
    assert len(record["guessed"]) == 1, record["guessed"]
    return all(word in record["guessed"][0] for word in words)


def test_a_table_that_is_clear_needs_no_guess(tmp_path):
    dataset, states, record = load(tmp_path, table())
    np.testing.assert_array_equal(states, STATES)
    assert record["guessed"] == [] and dataset.step == 0.1


@pytest.mark.parametrize("separator", [",", ";", "\t", " "])
def test_without_a_header_the_first_column_that_increases_is_the_time(tmp_path, separator):
    dataset, states, record = load(tmp_path, table(separator, header=""))
    np.testing.assert_array_equal(states, STATES)
    assert dataset.step == 0.1
    assert dataset.system.components == ("z1", "z2")
    assert said(record, "no header", "first column", "is the time", "--columns")


def test_without_a_header_columns_can_be_named(tmp_path):
    text = table(header="")
    dataset, states, record = load(tmp_path, text, columns=["time [s]", "q [rad]", "p"])
    np.testing.assert_array_equal(states, STATES)
    assert dataset.system.components == ("q", "p")
    assert record["guessed"] == [] and record["units"] == ["rad", ""]
    dataset, states, _ = load(tmp_path, text, columns=["a", "q", "p"], step=0.5)
    assert states.shape == (20, 3) and dataset.step == 0.5
    with pytest.raises(InputError, match="has 3 columns, but 2 are named"):
        load(tmp_path, text, columns=["q", "p"])
    with pytest.raises(InputError, match="has a header"):
        load(tmp_path, table(), columns=["t", "q", "p"])


def test_without_a_header_a_column_of_other_steps_than_those_given_is_a_component(tmp_path):
    _, states, record = load(tmp_path, table(header=""), step=0.5)
    assert states.shape == (20, 3)
    assert said(record, "no header", "no column is the time", "--columns")


@pytest.mark.parametrize("separator", [";", "\t", " "])
def test_a_decimal_comma_is_found_where_it_is_clear(tmp_path, separator):
    for header in ("time,q,p", ""):
        _, states, record = load(tmp_path, table(separator, header, decimal=","))
        np.testing.assert_array_equal(states, STATES)
        assert any("comma is the decimal mark" in text for text in record["guessed"])
    _, states, record = load(tmp_path, table(separator, decimal=","), decimal=",")
    assert record["guessed"] == []


def test_quoted_decimal_commas_stand_between_commas(tmp_path):
    text = "time,q\n" + "".join(f'"{t:.1f}","{t * t:.4f}"\n'.replace(".", ",") for t in TIMES)
    _, states, _ = load(tmp_path, text)
    np.testing.assert_allclose(states[:, 0], TIMES**2, atol=1e-15)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("t;x\n0,1;1,5\n0,2;1.5\n", {}, "line 3, column x: '1.5' .* where ',' .* --decimal"),
        ("t;x\n0.1;1,5\n0.2;1.5\n", {}, "line 3, column x: '1.5' .* where ',' .* --decimal"),
        ("t,x\n0,1,1,5\n0,2,1,6\n", {}, "rows have 4.*comma is the decimal mark"),
        ("t;x\n0,1;1.000,5\n", {}, "column x holds text such as '1.000,5'"),
        ("t;x\n0,1;1,5\n", {"decimal": "."}, "'1,5' is not a number"),
        ("t;x\n0;1\n1;1.5D-03\n", {}, "line 3, column x: '1.5D-03' is not a number"),
        ("t,x\n0,1\n1,2,3\n", {}, "line 3: 3 values, but the first row has 2"),
        ("time,x\ns,m\n0,1\n1,2\n", {}, "'m' is not a number; if it is a unit, delete the line"),
        ("t;x\n0;1\n", {"decimal": "x"}, "decimal mark is '.' or ',', not 'x'"),
        ("t,x\n0,1\n1,2\n1,3\n", {}, "the time 1 stands twice.*column named trajectory"),
        ("," * 20_000 + "\n1,2\n", {}, "has 20,001 columns"),
        ("t,note\n0,a\n1,b\n", {}, "no column for the states"),
        ("t,x,n\n0,1,a\n1,2,b\n", {"variable": "n"}, "column n: 'a' is not a number"),
        ("time,x\n2026-01-01,1\n2026-13-01,2\n", {}, "line 3, column time: '2026-13-01'"),
        ("time,x\nnoon,1\nnight,2\n", {}, "'noon' is not a time as of ISO 8601"),
        ("trajectory,x\n" + "a,1\n" * 2001 + "\n".join(f"{k},1" for k in range(4000)), {"step": 1},
         "need far more room"),
    ],
)  # fmt: skip
def test_what_is_not_clear_is_told(tmp_path, text, options, message):
    with pytest.raises(InputError, match=message):
        load(tmp_path, text, **options)
    assert not (tmp_path / "lab.h5").exists()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_encodings_are_found(tmp_path, encoding):
    text = table(";", "time [s],größe [µm],p [m/s]")
    _, states, record = load(tmp_path, text.encode(encoding))
    np.testing.assert_array_equal(states, STATES)
    assert record["units"] == ["µm", "m/s"]
    assert "größe" in record["columns"][0]
    assert len(record["guessed"]) == (encoding == "latin-1")
    if encoding == "latin-1":
        assert said(record, "encoding", "Latin-1")


def test_utf_16_without_a_mark_is_refused(tmp_path):
    with pytest.raises(InputError, match="save it as text in UTF-8"):
        load(tmp_path, table().encode("utf-16-le"))


def test_a_table_takes_pandas(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"takes pandas: pip install 'vpintegrator\[tables\]'"):
        load(tmp_path, table())
    assert not (tmp_path / "lab.h5").exists()


def test_latin_1_in_the_last_line_only(tmp_path):
    _, states, record = load(tmp_path, (table() + "# 20 °C\n").encode("latin-1"))
    np.testing.assert_array_equal(states, STATES)
    assert said(record, "Latin-1")


def test_comment_lines_are_left_out_and_may_hold_the_header(tmp_path):
    body = table().split("\n", 1)[1]
    for text in (
        "# a pendulum, in air\n% 20.1 C\n\n" + table(),
        "# a pendulum, in air\n# time,q,p\n" + body,
        table().replace("\n0.5,", "\n# the door opened\n// again\n0.5,"),
    ):
        dataset, states, record = load(tmp_path, text)
        np.testing.assert_array_equal(states, STATES)
        assert dataset.system.components == ("q", "p")
        assert record["guessed"] == []
    with pytest.raises(InputError, match="line 5, column p: 'x' is not a number"):
        load(tmp_path, "# a\n\ntime,q,p\n# b\n0,1,x\n1,2,3\n")


def test_rows_are_sorted_by_their_times(tmp_path):
    order = np.random.default_rng(0).permutation(20)
    rows = np.column_stack([TIMES, STATES])[order]
    _, states, record = load(tmp_path, table(rows=rows))
    np.testing.assert_array_equal(states, STATES)
    assert said(record, "sorted by their times")


def test_dates_are_seconds_from_the_first(tmp_path):
    dates = np.datetime64("2026-05-01T23:59:59.500") + np.arange(20) * np.timedelta64(100, "ms")
    lines = [f"{date}Z;{q};{p}" for date, (q, p) in zip(dates, STATES, strict=True)]
    for header in (["when;q;p"], ["Time;q;p"], []):
        dataset, states, record = load(tmp_path, "\n".join(header + lines))
        np.testing.assert_array_equal(states, STATES)
        assert dataset.step == 0.1
        assert dataset.times("train")[0] == 0
        assert record["time_unit"] == "s"
        assert any("dates" in text for text in record["guessed"])


def test_text_columns_are_left_out_unless_asked_for(tmp_path):
    lines = [
        f"{t:.1f},good,{q},ok {k}" for k, (t, (q, _)) in enumerate(zip(TIMES, STATES, strict=True))
    ]
    _, states, record = load(tmp_path, "time,state of it,q,note\n" + "\n".join(lines))
    np.testing.assert_array_equal(states, STATES[:, :1])
    assert said(record, "left out as text: state of it, note")


def test_a_column_that_counts_rows_is_no_component(tmp_path):
    lines = [f"{k},{t:.1f},{q}" for k, (t, (q, _)) in enumerate(zip(TIMES, STATES, strict=True))]
    _, states, record = load(tmp_path, ",time,q\n" + "\n".join(lines))
    np.testing.assert_array_equal(states, STATES[:, :1])
    assert said(record, "counts the rows")


@pytest.mark.parametrize("name", ["lab.csv.gz", "lab.CSV.GZ", "lab.csv"])
def test_packed_tables(tmp_path, name):
    _, states, _ = load(tmp_path, gzip.compress(table().encode()), name)
    np.testing.assert_array_equal(states, STATES)


def test_packed_tables_that_are_damaged_or_out_of_proportion(tmp_path):
    packed = gzip.compress(table().encode())
    for data, message in (
        (packed[:-20], "cannot be unpacked by gzip"),
        (packed[:30] + b"\xff\xff" + packed[32:], "cannot be unpacked|not a text file"),
        (gzip.compress(b"x\n" + b"1\n" * (1 << 24)), "out of proportion"),
        (gzip.compress(bytes(1 << 10)), "not a text file"),
    ):
        with pytest.raises(InputError, match=message):
            load(tmp_path, data, "lab.csv.gz", step=1.0)
    assert not (tmp_path / "lab.h5").exists()


@pytest.mark.parametrize(
    "header",
    ["time [s],q [rad],p [kg m/s]", "time (sec),q (rad),p (kg m/s)", "time_s,q (rad),p[kg m/s]"],
)
def test_units_in_headers_are_kept_as_units(tmp_path, header):
    given = {"variable": "p,q", "structure": "none"}
    dataset, states, record = load(tmp_path, table(header=header), **given)
    np.testing.assert_array_equal(states, STATES[:, ::-1])
    assert dataset.system.components == ("p", "q")
    assert record["units"] == ["kg m/s", "rad"] and record["time_unit"] == "s"
    with xarray.open_dataset(dataset.path, group="train", engine="h5netcdf") as data:
        assert data.time.attrs["units"] == "s"
        assert data.state.attrs["units"] == "kg m/s, rad"
        assert data.unit.dims == ("component",)
        assert data.unit.values.tolist() == ["kg m/s", "rad"]


@pytest.mark.parametrize(
    "header",
    ["time_s,q [deg],p [deg/s]", "t/ms,angle [deg],rate [°/s]", "time_s,q_deg,p_deg/s"],
)
def test_degrees_become_radians_where_the_system_has_an_angle(tmp_path, header):
    dataset, states, record = load(tmp_path, table(header=header), system="pendulum")
    np.testing.assert_allclose(states, np.radians(STATES), rtol=1e-14)
    assert record["units"] == ["rad", "rad/s"] and dataset.step == 0.1
    assert said(record, "degrees", "radians")
    whole_turns = 'title = "x"\nmeasured = true\nstate = ["q", "p"]\n[periodic]\nq = "360"\n'
    for options in ({}, {"system": vp.load_system(whole_turns)}):
        dataset, states, record = load(tmp_path, table(header=header), **options)
        np.testing.assert_array_equal(states, STATES)
        assert record["units"][0] == "deg" and record["guessed"] == []


def test_a_derivative_is_no_name_with_a_unit(tmp_path):
    dataset, _, record = load(tmp_path, table(header="time,q,dq/dt"))
    assert dataset.system.components == ("q", "dq_dt") and record["units"] == []
