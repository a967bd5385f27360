"""The figure of a record has the numbers of its tables."""

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


def test_a_record_without_its_tables(script):
    with pytest.raises(InputError, match="no table with"):
        script("record_figure").draw("**A title**\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
