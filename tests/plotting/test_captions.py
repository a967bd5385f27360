"""Captions say what the report says."""

import re
import shutil
import subprocess

import pytest

from tests.plotting.conftest import only
from vpintegrator.plotting.captions import caption
from vpintegrator.plotting.draw import draw
from vpintegrator.plotting.figures import FIGURES
from vpintegrator.plotting.latex import latex
from vpintegrator.plotting.scene import Scene


@pytest.mark.parametrize(
    "figure", ["overview", "phase", "coordinates", "errors", "invariants", "volume"]
)
def test_every_caption_names_system_orbits_time_step_methods_and_reference(body, figure):
    text = caption(Scene(body), FIGURES[figure])
    assert text.startswith(
        "Free rigid body: 3 orbits from random initial states (seed 0) to t = 12 with step 0.2 "
        "(60 steps)."
    )
    for name in ("net (learned, windows of 3 states)", "Implicit midpoint (order 2)"):
        assert name in text
    assert f"accurate to about {body.reference_error.max():.0e}" in text
    assert not re.search(r"\bnan\b|\binf\b|None|\.\.|  ", text)


def test_numbers_are_those_of_the_report(body):
    scene = Scene(body)
    for name, run in body.runs.items():
        summary = body.summary(name)
        assert f"{summary.final_error:.1e} ({run.title})" in caption(scene, FIGURES["errors"])
        for invariant in body.system.invariants:
            text = caption(scene, FIGURES["invariants"])
            assert f"{summary.invariants[invariant]:.1e} ({run.title})" in text
            drift, uncertainty = summary.drifts[invariant], summary.drift_errors[invariant]
            assert f"{drift:+.1e} ± {uncertainty:.0e} ({run.title})" in text
        for kind in ("step", "phase-space"):
            assert f"{run.volume[kind].largest:.1e} ({run.title})" in caption(
                scene, FIGURES["volume"]
            )


@pytest.mark.thorough
def test_divergence_is_told(oscillators):
    text = caption(Scene(oscillators), FIGURES["errors"])
    times = oscillators.divergence_time("explicit-euler")
    assert f"Explicit Euler on {(times > 0).sum()} of 4 orbits, first at t = " in text
    assert f"{times.min():.4g}" in text
    assert "diverged (Explicit Euler)" in text


def test_what_is_left_out_is_told(thinned, oscillators):
    assert "one in 20 stored" in caption(Scene(thinned), FIGURES["errors"])
    assert "ends at t = 60" in caption(Scene(thinned), FIGURES["errors"])
    assert "as dots" in caption(Scene(thinned), FIGURES["phase"])
    assert "the first orbit, to t = 372.5" in caption(Scene(oscillators), FIGURES["phase"])
    assert "q[0] = 0, crossed upwards, in the plane (q[1], p[1])" in caption(
        Scene(oscillators), FIGURES["poincare"]
    )
    assert "order" in caption(Scene(thinned), FIGURES["work-precision"])


def test_plain_text_as_latex():
    assert latex("1.2e-05 ± 3e-07") == r"$1.2\cdot 10^{-5}$ $\pm$ $3\cdot 10^{-7}$"
    assert latex("z_0 → z_t") == r"$z_0$ $\to$ $z_t$"
    assert latex("50 % of a_model & {more}") == r"50 \% of a\_model \& \{more\}"
    assert latex("|log|det||, -2e+10") == r"$|\log|\det||$, $-2\cdot 10^{10}$"
    assert latex("vpt-1e5x") == "vpt-1e5x"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no TeX")
def test_tex_compiles_the_table(body, tmp_path, monkeypatch):
    only(monkeypatch, "errors")
    draw(body, tmp_path, formats=["png"], overwrite=True)
    table = (tmp_path / "table.tex").read_text()
    packages = re.findall(r"^% (\\usepackage.*)$", table, re.MULTILINE)
    document = [
        "\\documentclass{article}",
        *packages,
        "\\begin{document}",
        table,
        "\\end{document}",
    ]
    (tmp_path / "paper.tex").write_text("\n".join(document))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
