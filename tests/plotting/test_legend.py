"""The legend says what is learned, what is classical and what is exact."""

from itertools import chain

import pytest
from matplotlib.figure import Figure

from vpintegrator.plotting.figures import FIGURES
from vpintegrator.plotting.layout import Legend, LegendEntry
from vpintegrator.plotting.scene import Scene


def drawn(width, **groups):
    """The columns of a legend as it is drawn, each a list of its texts, and which are bold."""
    lines = [LegendEntry(label, group) for group, labels in groups.items() for label in labels]
    figure, legend = Figure(), Legend(lines, width)
    legend.draw(figure)
    texts = figure.legends[0].get_texts()
    rows = legend.rows
    assert len(texts) % rows == 0
    words = [text.get_text() for text in texts]
    bold = {text.get_text() for text in texts if text.get_fontweight() == "bold"} - {""}
    return [words[k : k + rows] for k in range(0, len(words), rows)], bold


def test_each_group_stands_under_its_word():
    columns, bold = drawn(60, learned=["vpff"], classical=["RK4", "Heun"], exact=["reference"])
    assert columns == [
        ["learned", "vpff"],
        ["classical", "RK4"],
        ["", "Heun"],
        ["exact", "reference"],
    ]
    assert bold == {"learned", "classical", "exact"}


def test_a_narrow_figure_has_more_rows():
    groups = {"learned": ["vpff"], "classical": ["RK4", "Implicit midpoint"]}
    columns, _ = drawn(22, **groups)
    assert columns == [["learned", "vpff", ""], ["classical", "RK4", "Implicit midpoint"]]
    columns, bold = drawn(14, **groups)
    assert columns == [["learned", "vpff", "classical", "RK4", "Implicit midpoint"]]
    assert bold == {"learned", "classical"}


def test_one_group_needs_no_word():
    columns, bold = drawn(30, classical=["RK4", "Heun", "Euler"])
    assert sorted(chain(*columns)) == ["Euler", "Heun", "RK4"]
    assert not bold


def test_many_in_a_narrow_figure_keep_their_order_without_words():
    names = [f"method {k}" for k in range(9)]
    columns, bold = drawn(16, learned=names[:2], classical=names[2:])
    assert list(chain(*columns))[: len(names)] == names
    assert not bold


@pytest.mark.parametrize("figure", ["overview", "coordinates"])
def test_the_reference_is_what_is_exact(body, figure):
    texts = [t.get_text() for t in FIGURES[figure].draw(Scene(body)).legends[0].get_texts()]
    at = texts.index("exact")
    assert texts[at + 1] == "reference"
    assert texts.index("learned") < texts.index("classical") < at
