"""Notebooks show tables and figures where ``import vpintegrator`` is all that was done."""

import base64
import html
import re

import pytest

import vpintegrator as vp
from vpintegrator.plotting.tables import Printed

HOSTILE = "<script>alert(1)</script> $\\href{javascript:alert(1)}{x}$ ![x](http://a.b) &amp; `c`"

PENDULUM = """
state = ["q", "p"]
hamiltonian = "p**2/2 - cos(q)"
initial_conditions = { distribution = "uniform", low = -1, high = 1 }
defaults = { step = 0.1 }
"""


@pytest.mark.thorough
def test_a_report_is_its_table_and_the_overview():
    system, methods = vp.load_system("pendulum"), ["rk4", "explicit-euler"]
    report = vp.compare(None, methods, system=system, steps=300, trajectories=3)
    text, printed = report._repr_html_(), Printed(report)
    cells = [html.unescape(cell) for cell in re.findall(r"<t[hd] [^>]*>(.*?)</t[hd]>", text)]
    assert cells == [cell for row in printed.rows for cell in row]
    assert "Median and worst are over the orbits" in text
    (picture,) = re.findall(r'src="data:image/png;base64,([^"]+)"', text)
    png = base64.b64decode(picture)
    assert png.startswith(b"\x89PNG") and 20_000 < len(png) < 400_000


def test_nothing_of_a_file_is_obeyed():
    hostile = vp.load_system(f"title = '{HOSTILE}'\nreference = '{HOSTILE}'\n{PENDULUM}")
    text = vp.compare(None, "rk4", system=hostile, steps=3)._repr_html_()
    assert "&lt;script&gt;alert(1)&lt;" in text and "mathjax_ignore" in text
    tags = {*re.findall(r"<(\w+)", text)}
    assert tags <= {
        *("div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td"),
        *("details", "summary", "pre", "img"),
    }
