"""Captions say what the report says."""

import re
from dataclasses import replace

import numpy as np
import pytest

import vpintegrator as vp
from tests.plotting.conftest import captions
from vpintegrator.plotting import csv_table, latex_table, markdown_table
from vpintegrator.plotting.figure import markdown_paragraphs
from vpintegrator.plotting.figures import FIGURES
from vpintegrator.plotting.figures.portraits import CoordinatesFigure
from vpintegrator.plotting.scene import Scene
from vpintegrator.rollout import compare


@pytest.mark.parametrize(
    "name", ["body", "thinned", "flow", pytest.param("oscillators", marks=pytest.mark.thorough)]
)
def test_a_caption_is_five_lines_on_system_orbits_and_reference(name, request):
    scene = Scene(request.getfixturevalue(name))
    report = scene.report
    for figure, text in captions(scene).items():
        lines = markdown_paragraphs({figure: text}).splitlines()[2:]
        assert len(lines) <= 5, figure
        assert all(len(line) <= 100 for line in lines)
        assert text.startswith(f"{report.system.title}: {len(report.reference)} orbits from ")
        assert not re.search(r"\bnan\b|\binf\b|None|\.\.|  ", text)
        if figure in ("errors", "coordinates"):
            assert f"accurate to about {report.accuracy:.0e}" in text


def test_numbers_are_those_of_the_report(body):
    scene = Scene(body)
    for name, run in body.runs.items():
        summary = body.summary(name)
        assert f"{summary.final_error:.1e} ({run.title})" in FIGURES["errors"](scene).caption()
        for invariant in body.system.invariants:
            text = FIGURES["invariants"](scene).caption()
            assert f"{summary.invariants[invariant]:.1e} ({run.title})" in text
        for kind in ("step", "phase-space"):
            text = FIGURES["volume"](scene).caption()
            assert f"{run.volume[kind].largest:.1e} ({run.title})" in text


def test_errors_below_the_accuracy_of_the_reference_are_bounds(body):
    coarse = replace(body, reference_error=np.full(3, 0.5))
    bound = f"< {coarse.accuracy:.0e}"
    assert 0.1 < coarse.accuracy < 1
    assert f"{bound} (RK4)" in FIGURES["errors"](Scene(coarse)).caption()
    assert bound.replace("<", "\\<") in markdown_table(coarse)
    assert f"$<$ ${bound[2]}\\cdot 10^{{-1}}$" in latex_table(coarse)
    assert "<" not in csv_table(coarse)
    assert "< " not in markdown_table(body)


def test_sections_are_those_of_one_energy(oscillators):
    """Orbits of other energies are left out, and the caption says so."""
    initial = oscillators.reference[[0, 0, 1], 0]
    initial[1, 2:] *= -1  # the same energy
    report = compare(
        None, ["rk4"], system="coupled-oscillators", initial=initial, step=0.2, steps=200
    )
    energy = report.system.invariants["energy"](initial)
    text = FIGURES["poincare"](Scene(report)).caption()
    assert f"One level of the energy, {energy[0]:.4g}" in text
    assert "orbits 1 and 2; others have other energies and are left out." in text
    points = report.runs["rk4"].section
    axes = FIGURES["poincare"](Scene(report)).draw().axes[1]
    drawn = np.asarray(axes.collections[0].get_offsets())
    assert len(drawn) == (points.trajectory < 2).sum() > 0


def test_coordinates_end_where_methods_differ():
    """In a long run the second panel is not the end of it."""
    report = compare(None, ["rk4", "heun"], system="pendulum", step=0.2, steps=2000, trajectories=1)
    text, left = FIGURES["coordinates"](Scene(report)).caption(), []
    for run in report.runs.values():
        gap = np.abs(run.states[0] - report.reference[0]) / np.ptp(report.reference[0], axis=0)
        apart = (gap > 0.1).any(axis=1)
        left += [report.times[apart.argmax()]] if apart.any() else []
        assert not apart.any() or f"t = {left[-1]:.4g} ({run.title})" in text
    end = report.times[CoordinatesFigure(Scene(report)).intervals[-1].stop - 1]
    assert max(left) <= end < max(left) + 60
    same = compare(None, ["dormand-prince-8"], system="pendulum", step=0.1, steps=20)
    assert "a component's range: no method." in FIGURES["coordinates"](Scene(same)).caption()


def test_of_a_damped_system_the_error_of_the_contraction_is_given():
    system = vp.System.from_function(lambda t, y: [y[1], -y[0] - 0.2 * y[1]], 2, step=0.2)
    report = compare(None, ["rk4"], system=system, initial=[[1, 0], [0, 0.5]], steps=40)
    text = FIGURES["volume"](Scene(report)).caption()
    assert "Contraction error: |log|det|| less that of the exact solution" in text
    for words in (text, markdown_table(report)):
        assert "volume" not in words.lower()
    figure = FIGURES["volume"](Scene(report)).draw()
    assert figure.axes[0].get_title() == "contraction error of one step"


def test_what_is_left_out_is_told(thinned, oscillators):
    assert "one in 20 stored" in FIGURES["errors"](Scene(thinned)).caption()
    assert ", to t = 60." in FIGURES["errors"](Scene(thinned)).caption()
    assert "as dots" in FIGURES["phase"](Scene(thinned)).caption()
    assert "1 of 4 orbits, to t = 372.5" in FIGURES["phase"](Scene(oscillators)).caption()
    section = FIGURES["poincare"](Scene(oscillators)).caption()
    assert "section q[0] = 0, upwards, in the plane (q[1], p[1])" in section
    assert "order" in FIGURES["work-precision"](Scene(thinned)).caption()
