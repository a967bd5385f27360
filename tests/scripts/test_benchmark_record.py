"""Records: which changes of digits break a rule, and their figure."""

import json

import pytest

from tests.scripts.conftest import BENCHMARKS, run
from vpintegrator.errors import InputError

OLD = {
    "trainings": {"kepler": {"kind": "split", "error": 3e-13, "log|det|, one step": 2e-16}},
    "classical": {"kepler, rk4": {"sum of states": 1.25, "order": 4.01}},
    "machine-code": {"kepler": {"model / RK4": 10.0, "C and PyTorch differ by": 1e-16}},
}


@pytest.mark.parametrize(
    ("section", "quantity", "value", "broken"),
    [
        ("trainings", "kind", "spff", True),
        ("trainings", "error", 8e-13, False),
        ("trainings", "error", 1e-12, True),
        ("trainings", "error", None, True),
        ("trainings", "log|det|, one step", 9e-13, False),
        ("trainings", "log|det|, one step", 2e-12, True),
        ("classical", "sum of states", 1.25 * (1 + 1e-13), False),
        ("classical", "sum of states", 1.25 * (1 + 1e-11), True),
        ("machine-code", "model / RK4", 12.9, False),
        ("machine-code", "model / RK4", 13.1, True),
        ("machine-code", "C and PyTorch differ by", 2e-14, True),
    ],
)
def test_rules(script, tmp_path, section, quantity, value, broken):
    new = json.loads(json.dumps(OLD))
    next(iter(new[section].values()))[quantity] = value
    for name, sections in (("old", OLD), ("new", new)):
        (tmp_path / name).write_text(json.dumps({"sections": sections}))
    arguments = ["compare", str(tmp_path / "old"), str(tmp_path / "new")]
    assert ("BROKEN" in run(script("record"), *arguments, code=broken)) == broken


def test_it_draws_what_the_record_says(script):
    text = (BENCHMARKS.parents[1] / "docs/results/benchmarks.md").read_text(encoding="utf-8")
    figure = script("record_figure").draw(text)
    assert len({axes.get_title() for axes in figure.axes}) == 4
    assert all(line.get_xdata().size for axes in figure.axes for line in axes.lines)


def test_a_record_without_its_tables(script):
    with pytest.raises(InputError, match="no table with"):
        script("record_figure").draw("**A title**\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
