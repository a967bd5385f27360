"""Figures of real rollouts: complete, faithful to the numbers, of the size asked for."""

from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from matplotlib.figure import Figure

import vpintegrator as vp
from tests.plotting.boxes import clipped, overlapping
from tests.plotting.conftest import only
from vpintegrator.errors import InputError
from vpintegrator.plotting import draw
from vpintegrator.plotting.figure import RolloutFigure, in_lines
from vpintegrator.plotting.figures import FIGURES
from vpintegrator.plotting.figures.curves import CROSS, LARGEST, WorkPrecisionFigure
from vpintegrator.plotting.figures.sections import PoincareFigure
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.style import find_style, luminance

ALWAYS = {"overview", "phase", "coordinates", "errors", "volume"}
EXPECTED = {
    "body": ALWAYS | {"invariants"},
    "oscillators": ALWAYS | {"invariants", "poincare"},
    "thinned": ALWAYS | {"invariants", "work-precision"},
    "flow": ALWAYS,
}
TEXTS = {"table.csv", "table.md", "table.tex", "captions.md"}


@pytest.mark.thorough
@pytest.mark.parametrize("name", EXPECTED)
def test_everything_is_drawn(name, request, tmp_path):
    report = request.getfixturevalue(name)
    paths = draw(report, tmp_path / "figures")
    figures = {f"{figure}.{suffix}" for figure in EXPECTED[name] for suffix in ("png", "pdf")}
    assert {path.name for path in paths} == figures | TEXTS
    assert {path.name for path in (tmp_path / "figures").iterdir()} == figures | TEXTS
    for path in paths:
        if path.suffix == ".png":
            assert matplotlib.image.imread(path).std() > 0.02, f"{path} is blank"
        if path.suffix == ".pdf":
            content = path.read_bytes()
            assert b"/FontFile2" in content, "fonts are not embedded as TrueType"
            assert b"/Type3" not in content
            assert len(content) < 1_000_000


def test_a_figure_is_all_that_it_declares(body, tmp_path, monkeypatch):
    """Files, captions and progress follow from a class; what does not apply is left out."""
    only(monkeypatch)

    class Times(RolloutFigure):
        name = "times"

        def draw(self):
            return self.new(self.style.narrow, 20, self.legend())

        def sentences(self):
            return [f"Times of {self.scene.name}."]

    class Never(Times):
        def applies(self):
            return False

    for name, figure in (("times", Times), ("never", Never)):
        monkeypatch.setitem(FIGURES, name, figure)
    told = []
    paths = draw(body, tmp_path, formats=["svg"], progress=lambda *words: told.append(words))
    assert {path.name for path in paths} == {"times.svg"} | TEXTS
    assert told == [("times", 0, 2), ("never", 1, 2), ("", 2, 2)]
    (own, _) = draw(body, tmp_path / "own", formats=["svg"], figures=[Times])
    assert own.read_bytes() == (tmp_path / "times.svg").read_bytes()
    caption = " ".join((tmp_path / "captions.md").read_text().split())
    assert caption.startswith("## times Free rigid body: 3 orbits from random")
    assert caption.endswith(" Times of test.")


@pytest.mark.parametrize(
    ("style", "width", "inches"),
    [
        (None, None, 3.4),
        (None, "page", 7.0),
        ("dark_background", "5.5", 5.5),
        ("own.mplstyle", None, 4.0),
        ("own.mplstyle", "column", 3.4),
    ],
)
def test_widths_and_styles_are_those_asked_for(body, style, width, inches, tmp_path, monkeypatch):
    """A style file of Matplotlib sets fonts, sizes and colours; --width goes before its width."""
    monkeypatch.chdir(tmp_path)
    own = "font.size: 11\nfigure.figsize: 4, 3\nsavefig.dpi: 100\ntext.usetex: True\n"
    Path("own.mplstyle").write_text(own)
    paths = draw(body, "f", formats=["png"], style=style, width=width, figures=["errors"])
    assert [path.name for path in paths] == ["errors.png", "errors.md"]
    image = matplotlib.image.imread("f/errors.png")
    dots = 100 if style == "own.mplstyle" else 300
    assert image.shape[1] == pytest.approx(inches * dots, abs=1)
    corner = image[0, 0, :3].mean()
    assert corner < 0.2 if style == "dark_background" else corner == 1
    scene = Scene(body, find_style(style))
    background = luminance(scene.style.background) + 0.05
    for look in scene.looks.values():
        assert not scene.style.dark or luminance(look.colour) + 0.05 > 3 * background


@pytest.mark.parametrize("width", ["column", "page"])
@pytest.mark.parametrize("count", [3, 8, 12])
@pytest.mark.parametrize("name", ["sphere", "plane", "space"])
@pytest.mark.thorough
def test_texts_of_many_methods(twelve, name, count, width):
    """No text is cut off, none lies on another, and a column overview fits a page."""
    report = twelve(name)
    scene = Scene(report, find_style(None, width), list(report.runs)[:count])
    with scene.style.applied(), np.errstate(all="ignore"):
        for name, declared in FIGURES.items():
            if declared(scene).applies():
                figure = declared(scene).draw()
                assert clipped(figure) == [], name
                assert overlapping(figure) == [], name
                assert figure.get_figheight() < 8, name


def test_some_methods_look_as_among_all(body, tmp_path):
    """Figures and tables hold these alone; a name or a title tells which."""
    scene = Scene(body, methods=["RK4", "net"])
    assert list(scene.runs) == ["net", "rk4"]
    assert scene.looks == {name: Scene(body).looks[name] for name in scene.runs}
    paths = draw(body, tmp_path, ["svg"], methods=["rk4"], overwrite=True)
    table = next(path for path in paths if path.name == "table.csv").read_text()
    assert [line[:4] for line in table.splitlines()] == ["meth", "RK4,"]


def crosses(axes):
    return [line for line in axes.lines if line.get_marker() == CROSS]


def test_a_method_that_diverges_leaves_its_mark(oscillators):
    """A cross at the very time, in each figure of errors, and words in the legend."""
    scene = Scene(oscillators)
    failed = {name for name in oscillators.runs if oscillators.diverged(name)}
    assert failed == {"explicit-euler", "stoermer-verlet"}
    for name in ("errors", "invariants", "volume"):
        figure = FIGURES[name](scene).draw()
        marks = crosses(figure.axes[0])
        colours = {scene.looks[name].colour for name in failed}
        assert {mark.get_color() for mark in marks} == colours
        times = {scene.first_failure(name) for name in failed}
        assert {float(mark.get_xdata()[0]) for mark in marks} == times
        labels = [text.get_text() for text in figure.legends[0].get_texts()]
        assert sum("diverged" in label for label in labels) == 2
    titles = [axes.get_title() for axes in FIGURES["phase"](scene).draw().axes]
    assert sum("diverged" in title for title in titles) == 4  # in both planes
    first = scene.first_failure("explicit-euler")
    assert f"first at t = {first:.4g} (Explicit Euler)" in FIGURES["errors"](scene).caption()


def test_a_section_shows_the_other_plane(oscillators, body):
    scene = Scene(oscillators)
    assert oscillators.section_plane[0] == "q[0]"
    figure = PoincareFigure(scene).draw()
    assert figure.axes[0].get_title() == "reference"
    assert len(figure.axes) == 4
    energy = oscillators.system.invariants["energy"](oscillators.reference[0, 0])
    assert figure.get_suptitle() == f"section $q_{{0}}$ = 0, upwards, energy {energy:.4g}"
    section = oscillators.runs["rk4"].section
    points = section.points[section.trajectory == 0][:, [1, 3]]  # at the first of four energies
    for axes in (figure.axes[3], vp.plotting.section(oscillators, "rk4", ax=Figure().subplots())):
        np.testing.assert_array_equal(axes.collections[0].get_offsets(), points)
    assert not PoincareFigure(Scene(body)).applies()


def test_work_precision_diagrams_give_the_fitted_orders(thinned, body):
    figure = FIGURES["work-precision"](Scene(thinned)).draw()
    assert len(figure.axes) == 2  # evaluations and seconds
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    for name, label in zip(thinned.runs, labels, strict=True):
        order = WorkPrecisionFigure(Scene(thinned)).orders[name]
        assert order == pytest.approx(thinned.runs[name].order, abs=0.2)
        assert label.endswith(f"order {order:.2f}")
    assert not FIGURES["work-precision"](Scene(body)).applies()


def test_existing_figures_are_kept(body, tmp_path, monkeypatch):
    only(monkeypatch, "overview")
    (tmp_path / "overview.png").write_text("precious")
    with pytest.raises(InputError, match="exists already"):
        draw(body, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["overview.png"]
    assert (tmp_path / "overview.png").read_text() == "precious"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"formats": ["eps"]}, "one of png, pdf, svg, not 'eps'"),
        ({"style": "poster"}, "'poster' is neither a style file of Matplotlib nor one"),
        ({"figures": ["energy"]}, "figure must be one of .*coordinates"),
        ({"figures": ["poincare"]}, "nothing to show in the figure 'poincare'"),
        ({"methods": ["rk5"]}, "one of net, .*not 'rk5'; did you mean"),
        ({"width": "wide"}, "'wide' is neither column nor page"),
        ({"width": 0.5}, "'0.5' is neither column nor page"),
        ({"width": "nan"}, "neither column nor page"),
    ],
)
def test_mistakes(body, tmp_path, arguments, message):
    with pytest.raises(InputError, match=message):
        draw(body, tmp_path / "figures", **arguments)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="File exists"):
        draw(body, tmp_path / "file")


LONG = "A pendulum with friction, driven by a periodic torque, in a frame that turns with $5 in it"


@pytest.mark.parametrize("width", ["column", "page", "2.6"])
@pytest.mark.parametrize("title", [LONG, "Word" * 28, "Short"])
def test_long_titles_are_broken_into_lines(title, width):
    """As many as the width takes; a word that is too long loses its middle."""
    text = f'title = "{title}"\nstate = ["x", "y"]\nvector_field = {{ x = "y", y = "-x" }}'
    system = vp.load_system(f"{text}\ninitial_conditions = {{ distribution = 'normal' }}")
    report = vp.compare(None, ["rk4"], system=system, step=0.1, steps=30, trajectories=1)
    style = find_style(None, width)
    with style.applied():
        figure = FIGURES["overview"](Scene(report, style)).draw()
        assert clipped(figure) == []
        assert overlapping(figure) == []
        shown = figure.get_suptitle().replace("\n", " ").replace("\\$", "$")
        assert shown.startswith(title) or "…" in shown
        assert shown.endswith("to $t$ = 3, step 0.1")


def test_lines_of_titles_keep_formulas_whole():
    text = r"section $\mathrm{a\ b\ c}$ = 0, upwards, energy 0.02504"
    lines = in_lines(text, 1.4, fontsize=8).split("\n")
    assert len(lines) > 1 and " ".join(lines) == text
    assert r"$\mathrm{a\ b\ c}$" in lines[0] or r"$\mathrm{a\ b\ c}$" in lines[1]
    assert in_lines("", 1.4, fontsize=8) == ""


def test_a_band_goes_on_where_an_orbit_is_lost(oscillators):
    """Its top leaves the figure, and no gap opens."""
    figure = Figure().subplots()
    sizes = np.array([[1e-3, 1e-2, np.inf, np.inf], [1e-4, 1e-4, 1e-4, 2e-4]])
    FIGURES["errors"](Scene(oscillators)).band(figure, "rk4", np.arange(4.0), sizes)
    (path,) = figure.collections[0].get_paths()
    assert set(path.vertices[:, 0]) == {0.0, 1.0, 2.0, 3.0}
    assert path.vertices[:, 1].max() == LARGEST
