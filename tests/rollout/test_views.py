"""Comparisons as pandas has them."""

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


def test_the_text_says_to_what_time_errors_speak(report):
    assert repr(report).endswith("3 trajectories to t = 6, errors to t = 3>")
