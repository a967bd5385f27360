"""Figures as PGF, which a LaTeX document typesets in its own fonts.

Matplotlib asks a LaTeX engine how large every label is, so writing PGF needs one, as compiling the
document does.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib
import matplotlib.figure

from vpintegrator.errors import InputError

_COMMAND = "\\providecommand{\\mathdefault}[1]{#1}%\n"
ENGINES = ("pdflatex", "lualatex", "xelatex")


def find_engine() -> str:
    """Return the LaTeX engine that measures labels.

    Raises
    ------
    InputError
        If none is installed, or it cannot typeset a label.
    """
    engine = next((name for name in ENGINES if shutil.which(name)), None)
    if engine is None:
        raise InputError(
            f"PGF needs a LaTeX engine, and none of {', '.join(ENGINES)} is installed; install "
            "TeX Live, or choose the format pdf"
        )
    from matplotlib.backends.backend_pgf import LatexManager
    from matplotlib.font_manager import FontProperties

    with _measured_by(engine):
        LatexManager._get_cached_or_new().get_width_height_descent("$t$", FontProperties())
    return engine


@contextmanager
def _measured_by(engine: str) -> Iterator[None]:
    """Measure labels by a LaTeX engine, in the fonts of the including document."""
    from matplotlib.backends.backend_pgf import LatexError

    settings = {"pgf.texsystem": engine, "pgf.rcfonts": False}
    with matplotlib.rc_context(settings):  # type: ignore[arg-type]
        try:
            yield
        except (LatexError, RuntimeError) as error:
            lines = str(error).splitlines()
            reason = next((line.lstrip("! ") for line in lines if line.startswith("!")), lines[0])
            raise InputError(f"PGF: {engine} cannot typeset labels: {reason}") from None


def write_pgf(figure: matplotlib.figure.Figure, path: Path, engine: str) -> None:
    """Write ``path``, and beside it ``-img0.png`` and so on for what is drawn as an image.

    Raises
    ------
    InputError
        If LaTeX cannot typeset a label: it has no such letter, say.
    """
    with _measured_by(engine):
        figure.savefig(path, format="pgf")
    # a command of Matplotlib's that it expects the document to define
    path.write_text(_COMMAND + path.read_text(encoding="utf-8"), encoding="utf-8")
