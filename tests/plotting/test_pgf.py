"""PGF: refused in words without a LaTeX engine; with one, a document can include it."""

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from tests.plotting.conftest import only
from vpintegrator.errors import InputError
from vpintegrator.plotting import draw
from vpintegrator.plotting.pgf import ENGINES

engine = next((name for name in ENGINES if shutil.which(name)), None)
needs_latex = pytest.mark.skipif(engine is None, reason="no LaTeX engine is installed")
DOCUMENT = r"""
\documentclass{article}
\usepackage{pgf}
\begin{document}
\input{errors.pgf}

\input{phase.pgf}
\end{document}
"""


def test_without_an_engine_nothing_is_written(body, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(InputError, match="PGF needs a LaTeX engine, and none of pdflatex"):
        draw(body, tmp_path / "figures", formats=["png", "pgf"])
    assert list(tmp_path.iterdir()) == []


@needs_latex
def test_a_document_includes_the_figures(body, tmp_path, monkeypatch):
    only(monkeypatch, "errors", "phase")
    paths = draw(body, tmp_path, formats=["pgf"], width="column")
    names = {path.name for path in paths}
    assert {"errors.pgf", "phase.pgf", "phase-img0.png"} <= names
    text = (tmp_path / "phase.pgf").read_text()
    assert set(re.findall(r"phase-img\d+\.png", text)) <= names
    (tmp_path / "paper.tex").write_text(DOCUMENT)
    command = [engine, "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)
    assert result.returncode == 0, result.stdout[-2000:]
    assert (tmp_path / "paper.pdf").stat().st_size > 10_000


@needs_latex
def test_names_with_special_characters(body, tmp_path, monkeypatch):
    only(monkeypatch, "errors", "phase")
    runs = {"net": replace(body.runs["net"], title="50% of_my {net} & $x^2$ #1")}
    draw(replace(body, runs=runs), tmp_path, formats=["pgf", "png"])
    text = (tmp_path / "errors.pgf").read_text()
    assert r"50\% of\_my \{net\} \& \textdollar{}x\textasciicircum{}2\textdollar{} \#1" in text
    assert (tmp_path / "errors.png").stat().st_size > 1000
