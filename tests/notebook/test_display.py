"""Notebooks show tables and figures where ``import vpintegrator`` is all that was done."""

import base64
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vpintegrator as vp
from tests.notebook.reading import Page
from vpintegrator.plotting.tables import printed
from vpintegrator.rich_display import RichDisplay

HOSTILE = "<script>alert(1)</script> $\\href{javascript:alert(1)}{x}$ ![x](http://a.b) &amp; `c`"

PENDULUM = """
state = ["q", "p"]
hamiltonian = "p**2/2 - cos(q)"
initial_conditions = { distribution = "uniform", low = -1, high = 1 }
defaults = { step = 0.1 }
"""


def numbers(rows):
    return {cell for row in rows for cell in row}


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


def test_a_dataset_is_its_parts_and_ranges(dataset):
    page = Page(dataset._repr_html_())
    assert ["train", "7", "7"] in page.rows and ["test", "2", "7"] in page.rows
    states = np.concatenate([dataset.states(group).reshape(-1, 2) for group in dataset.shapes])
    for place, name in enumerate("qp"):
        low, high = states[:, place].min(), states[:, place].max()
        assert [name, f"{low:.6g}", f"{high:.6g}"] in page.rows
    assert page.facts["step"] == "0.2" and "0.01" in page.facts["noise"]
    assert page.facts["accuracy"].startswith("error a")
    assert "all 70 states" in page.words


def test_a_recipe_says_what_it_makes():
    recipe = vp.load_recipe("pendulum", count=10, steps=6, vary={"g": [0.5, 2.0]})
    page = Page(vp.notebook.html(recipe))
    assert page.facts["steps"] == "6 of 0.2" and page.facts["g"] == "0.5 to 2"
    assert 'system = "pendulum"' in page.words or "hamiltonian" in page.words
    assert repr(recipe).startswith("<Recipe pendulum: 7 train, 1 validation, 2 test trajectories")
    assert len(repr(recipe)) < 200


def test_a_model_is_its_layers_and_what_they_keep(trained):
    model, history = trained
    page = Page(model._repr_html_())
    count = sum(parameter.numel() for parameter in model.parameters())
    assert page.facts["parameters"] == str(count)
    layers = [row for row in page.rows if len(row) == 5][1:]
    assert [row[1] for row in layers] == ["GradientCoupling"] * 2
    assert sum(int(row[4]) for row in layers) == count
    assert {row[3] for row in layers} == {"volume, dq dp"}
    assert "kinetic: NeuronPotential(size=1, width=3)" in layers[0][2]
    assert "symplectic form" in page.facts["keeps"] and "reversing" in page.facts["keeps"]
    assert page.facts["trained for"] == "pendulum" and page.facts["step"] == "0.2"
    assert page.facts["test error"].startswith(f"{history.test_error:.3g}")
    assert repr(model) in page.words  # folded
    for words in ("dim=2", "symplectic=True", f"parameters={count}"):
        assert words in repr(model)


def test_a_family_says_its_ranges_and_a_member_its_step(tmp_path):
    vary = {"step": [0.05, 0.3], "g": [0.8, 1.2]}
    data = vp.generate("pendulum", tmp_path / "family.h5", count=20, steps=1, vary=vary)
    sizes = {"functions": "polynomial", "degree": 2, "depth": 1}
    model = vp.models.build(vp.data.ExtendedDataset(data).system, **sizes)
    vp.train(model, data, epochs=1, progress=False, compiled=False)
    facts = Page(model._repr_html_()).facts
    low, high = data.varied["step"]
    assert facts["family: step"] == f"{low:.6g} to {high:.6g}" and "family: g" in facts
    assert facts["with"] == "m = 1.0, l = 1.0" and "step" not in facts
    assert "test error" in facts
    facts = Page(model.at(step=0.1, g=1.1)._repr_html_()).facts
    assert facts["step"] == "0.1" and "g = 1.1" in facts["with"]
    assert "test error of the family" in facts and "test error" not in facts


def test_a_model_that_promises_nothing_says_so():
    page = Page(vp.notebook.html(vp.models.ResidualNetwork(dim=2, depth=50)))
    assert page.facts["keeps"] == "nothing by construction"
    assert page.facts["trained for"] == "not trained"
    assert any(row[1] == "and 12 more" for row in page.rows if len(row) == 5)


def test_a_training_is_its_errors_and_its_curve(trained):
    _, history = trained
    page = Page(history._repr_html_())
    assert page.facts["test error"] == f"{history.test_error:.3g}"
    assert page.facts["epochs"].startswith("4 in ")
    assert len(page.images) == 1
    untold = Page(vp.notebook.html(vp.training.History("adam", 0, 5)))
    assert untold.images == [] and untold.facts["parameters"] == "5"


def test_an_ensemble_is_its_numbers_and_density(tmp_path):
    flow = vp.rollout.as_flow("rk4", vp.load_system("pendulum"), 0.2)
    found = vp.rollout.ensemble(flow, tmp_path / "e.h5", initial=30, steps=10)
    page = Page(found._repr_html_())
    assert page.facts["confined"] == "100 % to the end" and len(page.images) == 1
    assert repr(found) == (
        "<EnsembleStatistics pendulum: rk4, 30 trajectories of 10 steps of 0.2, 100 % stayed>"
    )


def test_a_survey_is_a_row_for_each_condition_and_method():
    shape = (2, 2)
    names = ("first_error", "median_error", "worst_error", "volume_error", "seconds")
    values = {name: np.full(shape, 1.5e-3) for name in names}
    values["worst_error"][1, 1] = np.inf
    survey = vp.rollout.Survey(
        title="Pendulum",
        time=10.0,
        conditions={"step": np.array([0.1, 0.2])},
        methods={"net": "net", "rk4": "RK4"},
        learned=["net"],
        values=values,
    )
    page = Page(survey._repr_html_())
    assert ["0.2", "RK4", "1.5e-03", "1.5e-03", "diverged", "1.5e-03", "1.5 ms"] in page.rows
    assert len(page.images) == 1
    assert repr(survey) == "<Survey Pendulum: net, rk4 at 2 combinations of step, to t = 10>"


def test_what_is_gone_is_shown_as_a_line(tmp_path):
    dataset = vp.generate("pendulum", tmp_path / "gone.h5", count=4, steps=2)
    Path(dataset.path).unlink()
    assert dataset._repr_html_() is None and "gone.h5" in repr(dataset)
    with pytest.raises(vp.InputError, match=r"gone\.h5"):
        vp.notebook.html(dataset)
    with pytest.raises(vp.InputError, match="how to show a int as html"):
        vp.notebook.html(3)


def test_nothing_of_a_file_is_obeyed(tmp_path, trained):
    hostile = vp.load_system(f"title = '{HOSTILE}'\nreference = '{HOSTILE}'\n{PENDULUM}")
    dataset = vp.generate(hostile, tmp_path / "x.h5", count=4, steps=2)
    report = vp.compare(
        {HOSTILE.replace("/", ""): trained[0]}, "rk4", system=hostile, steps=3, compiled=False
    )
    model, _ = trained
    kept = dict(model.metadata)
    try:
        model.metadata |= {"system_name": HOSTILE, "training": "{", "parameters": HOSTILE}
        pages = [dataset._repr_html_(), report._repr_html_(), model._repr_html_()]
        pages.append(vp.load_recipe(hostile)._repr_html_())
    finally:
        model.metadata = kept
    for text in pages:
        page = Page(text)  # which knows no script, and no links
        assert "<script>alert(1)<" in page.words and "mathjax_ignore" in text
        assert "<script" not in text


def test_nothing_needs_to_be_switched_on():
    code = (
        "import sys\nimport vpintegrator as vp\n"
        "assert not {'IPython', 'matplotlib', 'vpintegrator.notebook'} & sys.modules.keys()\n"
        "from IPython.core.formatters import DisplayFormatter\n"
        "show = DisplayFormatter().format\n"
        "data, _ = show(vp.load_recipe('pendulum'))\n"
        "assert {*data} == {'text/plain', 'text/html'}, data\n"
        "assert 'matplotlib' not in sys.modules\n"
        "data, _ = show(vp.load_system('pendulum'))\n"
        "assert {*data} == {'text/plain', 'text/markdown'}, data\n"
    )
    pytest.importorskip("IPython")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_terminal_goes_on_with_the_repr():
    formatters = pytest.importorskip("IPython.core.formatters")
    formatter = formatters.DisplayFormatter(active_types=["text/plain"])
    system = vp.load_system("pendulum")
    data, _ = formatter.format(system)
    assert data == {"text/plain": repr(system)}


def classes(kind=RichDisplay):
    for each in kind.__subclasses__():
        yield each
        yield from classes(each)


def test_every_class_says_a_module_that_there_is():
    import importlib

    found = [each for each in classes() if each.__module__.startswith("vpintegrator.")]
    assert {each.__name__ for each in found} >= {"System", "Dataset", "Report", "Integrator"}
    for each in found:
        module = importlib.import_module(f"vpintegrator.notebook.{each.displayed_by}")
        assert hasattr(module, "html") or hasattr(module, "markdown")
