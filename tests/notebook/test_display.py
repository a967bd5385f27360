"""Notebooks show tables and figures where ``import vpintegrator`` is all that was done."""

import base64
import subprocess
import sys

import pytest

import vpintegrator as vp
from tests.notebook.reading import Page
from vpintegrator.plotting.tables import printed

HOSTILE = "<script>alert(1)</script> $\\href{javascript:alert(1)}{x}$ ![x](http://a.b) &amp; `c`"

PENDULUM = """
state = ["q", "p"]
hamiltonian = "p**2/2 - cos(q)"
initial_conditions = { distribution = "uniform", low = -1, high = 1 }
defaults = { step = 0.1 }
"""


def numbers(rows):
    return {cell for row in rows for cell in row}


@pytest.mark.thorough
def test_a_report_is_its_table_and_the_overview(report):
    page = Page(report._repr_html_())
    titles, rows, _ = printed(report)
    assert page.rows == [titles, *map(list, rows)]
    assert "3 of 3" in numbers(page.rows)  # explicit Euler diverges
    assert f"{report.summary('net').worst_error:.1e}" in numbers(page.rows)
    assert "Median and worst are over the orbits" in page.words
    (picture,) = page.images
    png = base64.b64decode(picture.removeprefix("data:image/png;base64,"))
    assert png.startswith(b"\x89PNG") and 20_000 < len(png) < 400_000


def test_what_has_no_display_is_a_short_line(trained, dataset):
    recipe = vp.load_recipe("pendulum", count=10, steps=6, vary={"g": [0.5, 2.0]})
    assert repr(recipe).startswith("<Recipe pendulum: 7 train, 1 validation, 2 test trajectories")
    for thing in (recipe, dataset, trained[1], 3):
        assert len(repr(thing)) < 200 and not hasattr(thing, "_repr_html_")
        with pytest.raises(vp.InputError, match=rf"how to show a {type(thing).__name__} as html"):
            vp.notebook.html(thing)


def test_nothing_of_a_file_is_obeyed(trained):
    hostile = vp.load_system(f"title = '{HOSTILE}'\nreference = '{HOSTILE}'\n{PENDULUM}")
    report = vp.compare(
        {HOSTILE.replace("/", ""): trained[0]}, "rk4", system=hostile, steps=3, compiled=False
    )
    text = report._repr_html_()
    page = Page(text)  # which knows no script, and no links
    assert "<script>alert(1)<" in page.words and "mathjax_ignore" in text
    assert "<script" not in text


def test_nothing_needs_to_be_switched_on():
    code = (
        "import sys\nimport vpintegrator as vp\n"
        "assert not {'IPython', 'matplotlib', 'vpintegrator.notebook'} & sys.modules.keys()\n"
        "from IPython.core.formatters import DisplayFormatter\n"
        "show = DisplayFormatter().format\n"
        "data, _ = show(vp.load_system('pendulum'))\n"
        "assert {*data} == {'text/plain', 'text/markdown'}, data\n"
        "assert 'matplotlib' not in sys.modules\n"
    )
    pytest.importorskip("IPython")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_terminal_goes_on_with_the_repr():
    formatters = pytest.importorskip("IPython.core.formatters")
    formatter = formatters.DisplayFormatter(active_types=["text/plain"])
    system = vp.load_system("pendulum")
    data, _ = formatter.format(system)
    assert data == {"text/plain": repr(system)}
