"""The figure of a record has the numbers of its tables."""

import math

import pytest

from tests.scripts.conftest import BENCHMARKS
from vpintegrator.errors import InputError

RECORD = BENCHMARKS.parents[1] / "docs" / "results" / "benchmarks.md"


def test_it_draws_what_the_record_says(script):
    module = script("record_figure")
    text = RECORD.read_text(encoding="utf-8")
    figure = module.draw(text)
    panels = {axes.get_title(): axes for axes in figure.axes}
    assert len(panels) == 4
    assert all(line.get_xdata().size for axes in figure.axes for line in axes.lines)


def test_times_are_read(script):
    seconds = script("record_figure").seconds
    assert [seconds(cell) for cell in ("3.5 ms", "1,011 us", "2 s", "40 ns")] == pytest.approx(
        [3.5e-3, 1.011e-3, 2.0, 4e-8]
    )
    assert math.isnan(seconds("-")) and math.isnan(seconds(""))


def test_a_record_without_its_tables(script):
    with pytest.raises(InputError, match="no table with"):
        script("record_figure").draw("**A title**\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
