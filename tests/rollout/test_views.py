"""Comparisons as pandas and xarray have them."""

import numpy as np
import pytest

import vpintegrator as vp


@pytest.fixture(scope="module")
def report():
    options = {"system": "pendulum", "steps": 30, "trajectories": 3, "reference_time": 3.0}
    return vp.compare(None, ["rk4", "explicit-euler"], **options)


def test_the_table_is_a_frame(report):
    frame = report.to_frame()
    assert list(frame.index) == [row["method"] for row in report.table()]
    for row in report.table():
        assert frame.loc[row["method"], "worst RMSE"] == row["worst RMSE"]
    assert list(frame.columns) == list(report.table()[0])[1:]


def test_arrays_have_their_labels(report):
    data = report.to_xarray()
    for name, run in report.runs.items():
        found = data.sel(run=name)
        assert np.array_equal(found.state.values, run.states)
        assert np.array_equal(found.error.values, run.error, equal_nan=True)
        assert np.array_equal(found.invariant_energy.values, run.invariants["energy"].error)
        assert found.kind == "classical"
    known = data.reference.isel(time=slice(report.reference.shape[1]))
    assert np.array_equal(known.values, report.reference)
    assert data.reference.sel(time=slice(3.1, None)).isnull().all()
    assert data.error.sel(time=slice(3.1, None)).isnull().all()
    assert data.attrs["system"] == "pendulum"
    assert data.attrs["parameter_g"] == report.system.parameters["g"]
